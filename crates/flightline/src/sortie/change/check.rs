//! Checks that a sortie may move, and that the caller may move it; a refusal names the legal moves.

use flightline_core::sortie::{Sortie, SortieError, SortieStatus};
use flightline_core::{Code, Refusal, Subject};
use flightline_store::Find;
use serde_json::json;

use crate::error::Result;
use crate::mission::short;
use crate::op_context::OpContext;

/// Refuses a move of a sortie to `to` that is not legal, and names the legal moves.
pub(crate) fn check_move(sortie: &Sortie, to: SortieStatus, verb: &str) -> Result<()> {
    if sortie.status.next().contains(&to) {
        return Ok(());
    }
    let (id, title, status) = (short(sortie.id), &sortie.title, sortie.status.as_str());
    let legal: Vec<&str> = sortie
        .status
        .next()
        .iter()
        .map(|status| status.as_str())
        .collect();
    let unclaimed = sortie.status == SortieStatus::Pending;
    let why = if unclaimed {
        "it is pending and not claimed".to_owned()
    } else {
        format!("it is {status}")
    };
    let hint = match sortie.status {
        SortieStatus::Pending => {
            format!("claim it first with `fleet sorties claim {id} --agent NAME`")
        }
        SortieStatus::Assigned => format!("begin it first with `fleet sorties start {id}`"),
        SortieStatus::Blocked => format!("unblock it first with `fleet sorties unblock {id}`"),
        SortieStatus::InProgress
        | SortieStatus::Completed
        | SortieStatus::Failed
        | SortieStatus::Skipped => {
            format!("from {status} it may become: {}", legal.join(", "))
        }
    };
    Err(Refusal::new(
        Code::IllegalTransition,
        format!("cannot {verb} {id} (\"{title}\"): {why}"),
    )
    .hint(hint)
    .details(json!({ "status": status, "legal": legal }))
    .into())
}

/// Refuses an agent that acts on another's sortie. People and dispatch may.
pub(crate) fn check_owner(ctx: &mut OpContext<'_, '_>, sortie: &Sortie, verb: &str) -> Result<()> {
    let Some(agent) = ctx.agent.clone() else {
        return Ok(());
    };
    if ctx.is_in_charge() || sortie.assigned_to.is_none() {
        return Ok(());
    }
    let Some(owner) = sortie.assigned_to.filter(|owner| *owner != agent.id) else {
        let taken_in = sortie.assigned_epoch.unwrap_or(agent.epoch);
        // An agent back in a new session keeps its work; an older session was refused before.
        debug_assert!(
            taken_in <= agent.epoch,
            "a sortie cannot be taken by an incarnation to come"
        );
        return Ok(());
    };
    let owner = ctx.agent_name(owner)?;
    Err(Refusal::new(
        Code::NotYours,
        format!(
            "{} cannot {verb} {} (\"{}\"): it is {owner}'s",
            agent.name,
            short(sortie.id),
            sortie.title
        ),
    )
    .hint(format!(
        "ask with `fleet mail send --to {owner} --subject \"…\"`"
    ))
    .details(json!({ "owner": owner }))
    .into())
}

/// Seed B's rule: it must be marked as resumable, and be in progress or blocked.
pub(super) fn refuse_unresumable(sortie: &Sortie) -> Result<()> {
    let (id, status) = (short(sortie.id), sortie.status.as_str());
    let instead = match sortie.status {
        SortieStatus::InProgress | SortieStatus::Blocked if sortie.resumable => return Ok(()),
        SortieStatus::InProgress | SortieStatus::Blocked => format!(
            "start over with `fleet sorties release {id}`, or mark it with `fleet sorties update {id} --resumable true`"
        ),
        SortieStatus::Pending | SortieStatus::Failed | SortieStatus::Skipped => {
            format!(
                "claim it with `fleet sorties claim {id} --agent NAME`, which hands over the remaining work"
            )
        }
        SortieStatus::Assigned => format!("begin it with `fleet sorties start {id}`"),
        SortieStatus::Completed => {
            format!("send it back first with `fleet sorties reject {id} --reason \"…\"`")
        }
    };
    let (why, hint) = match sortie.status {
        SortieStatus::InProgress | SortieStatus::Blocked => ("marked as not resumable", instead),
        SortieStatus::Pending
        | SortieStatus::Assigned
        | SortieStatus::Completed
        | SortieStatus::Failed
        | SortieStatus::Skipped => (
            status,
            format!("only a sortie that is in progress or blocked can be resumed; {instead}"),
        ),
    };
    Err(Refusal::new(
        Code::IllegalTransition,
        format!("cannot resume {id} (\"{}\"): it is {why}", sortie.title),
    )
    .hint(hint)
    .details(json!({ "status": status, "resumable": sortie.resumable }))
    .into())
}

pub(crate) fn refuse_open_errors(ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<()> {
    let errors = ctx.tx.find::<SortieError>(Find::Parent(&sortie.key()))?;
    let open: Vec<&SortieError> = errors
        .iter()
        .filter(|error| error.blocking && error.cleared_at.is_none())
        .collect();
    let Some(first) = open.first() else {
        return Ok(());
    };
    let id = short(sortie.id);
    Err(Refusal::new(
        Code::IllegalTransition,
        format!(
            "{id} (\"{}\") still has {} blocking: {}",
            sortie.title,
            if open.len() == 1 {
                "an error".to_owned()
            } else {
                format!("{} errors", open.len())
            },
            first.message
        ),
    )
    .hint(format!(
        "when it is dealt with: `fleet sorties error {id} --clear`"
    ))
    .into())
}
