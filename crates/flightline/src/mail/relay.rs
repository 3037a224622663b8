//! Reports to the mailbox of a mission's dispatch on the mission's checkpoints and recoveries. The journal is read
//! after the fact, by the next command: so code that checkpoints, prunes or recovers need not know of this, and
//! cannot fail because of it.

use crate::Schema;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use flightline_core::event::{Event, EventType};
use flightline_core::message::{
    Delivery, DeliveryState, EventDigest, Message, MessageKind, reaches_dispatch,
};
use flightline_core::mission::Mission;
use flightline_core::narrate::{Narrator, shortened};
use flightline_core::setting::NotifiedUpTo;
use flightline_core::{AgentId, Body, Kind, MessageId, MissionId, Title};
use flightline_store::{Actor, Find, Tx};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::Result;
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope};
use crate::op_context::OpContext;

/// Maximum number of events that one command looks at.
const AT_ONCE: u64 = 500;
/// The journal is not looked through again and again for nothing: the mark moves on after so many.
const MARK_AFTER: u64 = 500;

/// Reports to the mailbox of each mission's dispatch on its checkpoints and recoveries since the last time, but not
/// on its own acts.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct RelayEvents {}

impl Operation for RelayEvents {
    const NAME: &'static str = "relay_events";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = ();

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<()> {
        let who = ctx.tx.actor().clone();
        ctx.tx.act_as(Actor::flightline());
        let (told, now) = (mark(ctx)?, ctx.tx.rev());
        let events = ctx.tx.events_above_work(told, AT_ONCE)?;
        let all = (events.len() as u64) < AT_ONCE;
        let rev = events
            .last()
            .filter(|_| !all)
            .map_or(now, |event| event.rev);
        let mut news: BTreeMap<(MissionId, &str), Vec<&Event>> = BTreeMap::new();
        for event in events.iter().filter(|event| reaches_dispatch(event)) {
            if let Some(mission) = event.mission_id {
                let key = (mission, event.kind.as_str());
                news.entry(key).or_default().push(event);
            }
        }
        let mut news: Vec<(MissionId, Vec<&Event>)> =
            news.into_iter().map(|((of, _), it)| (of, it)).collect();
        news.sort_by_key(|(_, events)| events.first().map(|event| event.rev));
        let mut open = BTreeMap::new();
        for (mission, events) in news {
            // A mission or a mailbox that cannot be read is the doctor's, and stops no other.
            drop(ctx.attempt(|ctx| tell(ctx, mission, &events, &mut open))?);
        }
        ctx.tx.set(
            EventType::EventsTold,
            &NotifiedUpTo { rev },
            &json!({ "rev": rev }),
        )?;
        ctx.tx.act_as(who);
        Ok(())
    }
}

/// Mails to dispatch the events that it was not told yet. Costs one look when there are none.
pub fn relay(fleet: &mut Fleet, caller: &Caller) -> Result<()> {
    if !fleet.store()?.read(has_news)? {
        return Ok(());
    }
    // No act of the caller: its command is done.
    let caller = Caller {
        agent: None,
        epoch: None,
        session: None,
        idempotency_key: None,
        ..caller.clone()
    };
    fleet.run(&RelayEvents {}, &caller)
}

pub(crate) fn has_news(tx: &mut Tx<'_>) -> Result<bool> {
    let told = tx
        .get::<NotifiedUpTo>(NotifiedUpTo::KEY)?
        .map_or(0, |told| told.rev);
    let news = tx.events_above_work(told, AT_ONCE)?;
    let long_ago = tx.rev().saturating_sub(told) > MARK_AFTER;
    Ok(long_ago || news.iter().any(reaches_dispatch))
}

fn mark(ctx: &mut OpContext<'_, '_>) -> Result<u64> {
    let told = ctx.tx.get::<NotifiedUpTo>(NotifiedUpTo::KEY)?;
    Ok(told.map_or(0, |told| told.rev))
}

/// Messages that each dispatch has not read yet, by the subject that they report.
type Open = BTreeMap<AgentId, HashMap<String, String>>;

fn open_digests(ctx: &mut OpContext<'_, '_>, dispatch: AgentId) -> Result<HashMap<String, String>> {
    let find = Find::AgentStatus(dispatch, Delivery::OPEN_DIGEST);
    let rows = ctx.tx.rows(Kind::Delivery, find)?.into_iter();
    let mut open = HashMap::new();
    for (key, message) in rows.filter_map(|row| row.name.zip(row.parent)) {
        open.entry(key).or_insert(message);
    }
    Ok(open)
}

/// Sends one message per type of event and mission, which grows until it is read: however much happens, the mailbox
/// stays small.
fn tell(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
    events: &[&Event],
    open: &mut Open,
) -> Result<()> {
    let Some(mission) = ctx.tx.get::<Mission>(mission)? else {
        return Ok(());
    };
    let dispatch = ctx.dispatch_of(&mission)?;
    // Dispatch is told neither its own acts nor events about itself.
    let name = dispatch.name.as_str();
    let others =
        |event: &&&Event| event.actor != name && event.data["agent"].as_str() != Some(name);
    let events: Vec<&Event> = events.iter().filter(others).copied().collect();
    let Some(event) = events.last() else {
        return Ok(());
    };
    let key = Delivery::digest_key(&event.kind, mission.id);
    let open = match open.entry(dispatch.id) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => unknown.insert(open_digests(ctx, dispatch.id)?),
    };
    let unread = match open.get(&key) {
        Some(message) => ctx.tx.get::<Message>(message)?,
        None => None,
    };
    let before = unread.as_ref().and_then(|message| message.event.clone());
    let digest = events.iter().fold(before, |before, event| {
        Some(EventDigest::of(event, before.as_ref()))
    });
    let names = BTreeMap::from([(mission.id.to_string(), mission.title.to_string())]);
    let narrator = Narrator {
        names: &names,
        short: &shortened,
    };
    let line = digest.as_ref().map(|digest| digest.line(event, narrator));
    let line = line.unwrap_or_default();
    let id = unread
        .as_ref()
        .map_or_else(|| MessageId::new(ctx.tx.uuid()), |message| message.id);
    let body = format!(
        "See all of them with: fleet events list --type {} --mission {}",
        event.kind,
        crate::mission::short(mission.id)
    );
    let message = Message {
        id,
        thread_id: id,
        in_reply_to: None,
        mission_id: Some(mission.id),
        from: Actor::flightline().name,
        from_id: None,
        to: vec![dispatch.id],
        subject: Title::parse("subject", &line)?,
        body: Some(Body::parse("body", &body)?),
        kind: MessageKind::Event,
        sent_at: ctx.now(),
        acknowledge_by: None,
        event: digest,
    };
    let data = json!({ "to": [dispatch.name], "subject": message.subject, "tells_of": event.kind });
    if unread.is_some() {
        ctx.tx.set(EventType::MessageUpdated, &message, &data)?;
        return Ok(());
    }
    ctx.tx.set(EventType::MessageSent, &message, &data)?;
    let delivery = Delivery {
        message_id: id,
        to: dispatch.id,
        mission_id: None,
        state: DeliveryState::Pending,
        acknowledge_by: None,
        overdue_at: None,
        digest: Some(key),
        progress_of: None,
    };
    let data = json!({ "to": dispatch.name, "tells_of": event.kind });
    ctx.tx.set(EventType::MessageQueued, &delivery, &data)?;
    Ok(())
}
