//! Delivers a briefing to a session by itself: in full when the session begins or its context was compacted, once
//! more while it is not acknowledged.

use flightline_core::mission::Mission;
use flightline_core::setting::{Briefing, Form, Receipt};

use super::{SessionEvent, TellHook};
use crate::context::DeliverBriefing;
use crate::error::Result;
use crate::fleet::Operation;
use crate::op_context::OpContext;

/// Two hooks may tell of one event: a briefing that was offered so lately is not offered again.
const JUST_NOW_MS: u64 = 3_000;
/// Characters per token, on the safe side.
const PER_TOKEN: usize = 4;

/// Returns true when the agent should have had a briefing since it lost its context, and had none.
pub(super) fn is_owed(ctx: &mut OpContext<'_, '_>, hook: &TellHook) -> Result<bool> {
    let Some(agent) = &ctx.agent else {
        return Ok(false);
    };
    if hook.room.is_none() || (agent.epoch <= 1 && agent.context == 0) {
        return Ok(false);
    }
    Ok(given(ctx)?.is_empty())
}

/// Returns true when a briefing was offered to the present context a moment ago.
pub(super) fn was_just_offered(ctx: &mut OpContext<'_, '_>) -> Result<bool> {
    let now = ctx.now();
    let lately = |briefing: &Briefing| {
        let at = briefing.receipt.at();
        at.is_some_and(|at| now.since(at) < JUST_NOW_MS)
    };
    Ok(given(ctx)?.iter().any(lately))
}

/// The briefings that were given to the present context. They are the newest ones; an agent may have had many before.
fn given(ctx: &mut OpContext<'_, '_>) -> Result<Vec<Briefing>> {
    let Some(agent) = ctx.agent.clone() else {
        return Ok(Vec::new());
    };
    let is_present = |it: &Briefing| (it.epoch, it.context) == (agent.epoch, agent.context);
    let mut present = Vec::new();
    for status in ["pending", "offered", "acknowledged"] {
        let mut limit = 2;
        loop {
            let newest = ctx
                .tx
                .newest_of_agent::<Briefing>(agent.id, status, limit)?;
            let is_all = (newest.len() as u64) < limit || !newest.iter().all(is_present);
            if is_all {
                present.extend(newest.into_iter().filter(is_present));
                break;
            }
            limit *= 8;
        }
    }
    Ok(present)
}

/// The text to give with this event, when one is due.
pub(super) fn deliver(
    ctx: &mut OpContext<'_, '_>,
    hook: &TellHook,
    mission: &Mission,
    room: usize,
) -> Result<Option<String>> {
    let given = given(ctx)?;
    let read = given
        .iter()
        .any(|it| matches!(it.receipt, Receipt::Acknowledged { .. }));
    let is_due = match &hook.event {
        SessionEvent::Started | SessionEvent::Compacted => true,
        // While it is not acknowledged: in full once more, then in a line.
        SessionEvent::Prompted { .. } => !given.is_empty() && !read || is_owed(ctx, hook)?,
        SessionEvent::Worked { .. }
        | SessionEvent::Planned { .. }
        | SessionEvent::TaskMoved { .. } => is_owed(ctx, hook)?,
        SessionEvent::Editing { .. }
        | SessionEvent::Destroying { .. }
        | SessionEvent::Compacting
        | SessionEvent::Announced
        | SessionEvent::Stopped { .. }
        | SessionEvent::Ended
        | SessionEvent::Probed => false,
    };
    if !is_due || was_just_offered(ctx)? {
        return Ok(None);
    }
    let deliver = DeliverBriefing {
        mission: Some(mission.id.to_string()),
        max_tokens: Some((room / PER_TOKEN).clamp(400, 2_000)),
        minimal: false,
        tree: hook.tree.clone(),
    };
    let briefed = deliver.decide(ctx)?;
    // A line that repeats itself with every session start is no news.
    Ok(match (briefed.form, &hook.event) {
        (Form::Line, SessionEvent::Started) if read => None,
        _ => Some(briefed.text),
    })
}
