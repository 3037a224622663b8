//! What the journal and the listings of a world say.

use serde_json::Value;

use crate::crash::world::World;

/// One event: its revision, the first revision of its request, and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub rev: u64,
    pub step: u64,
    pub kind: String,
}

/// The revision a world is at, and its newest events, oldest first.
pub fn newest(world: &World, limit: u64) -> (u64, Vec<Entry>) {
    let list = world.ask(&["events", "list", "--limit", &limit.to_string()]);
    let entry = |event: &Value| Entry {
        rev: event["rev"].as_u64().unwrap(),
        step: event["step"].as_u64().unwrap(),
        kind: event["type"].as_str().unwrap().to_owned(),
    };
    let events = list["events"].as_array().unwrap();
    let rev = list["cursor"]["rev"].as_u64().unwrap();
    (rev, events.iter().rev().map(entry).collect())
}

/// The types of the events after `rev`, which are all of one request.
pub fn since(world: &World, rev: u64) -> Vec<String> {
    let (last, events) = newest(world, 20);
    after(rev, last, &events)
}

/// The types of those of the newest events, up to `last`, that came after `rev` and in one request.
pub fn after(rev: u64, last: u64, events: &[Entry]) -> Vec<String> {
    let new: Vec<&Entry> = events.iter().filter(|entry| entry.rev > rev).collect();
    assert_eq!(last, rev + new.len() as u64, "the counter fits the journal");
    for (place, entry) in (1..).zip(&new) {
        assert_eq!(entry.rev, rev + place, "no gap");
        assert!(
            entry.step == rev + 1 || is_upkeep(entry, events),
            "one request, but for what follows on a checkpoint: {events:?}"
        );
    }
    let work = new.iter().filter(|entry| !is_upkeep(entry, events));
    work.map(|entry| entry.kind.clone()).collect()
}

/// That a checkpoint has its file is noted by a request of its own, when the file is there; that dispatch was
/// told, and what the journal gave back, by others.
pub fn is_upkeep(entry: &Entry, events: &[Entry]) -> bool {
    let tells = |other: &Entry| other.step == entry.step && other.kind == "events_told";
    let kinds = [
        "checkpoint_created",
        "journal_thinned",
        "retention_put_right",
    ];
    kinds.contains(&entry.kind.as_str()) || events.iter().any(tells)
}

/// The whole journal, which must be without gaps from its beginning.
pub fn all(world: &World) -> Vec<Entry> {
    let (last, events) = newest(world, 10_000);
    let revs: Vec<u64> = events.iter().map(|entry| entry.rev).collect();
    assert_eq!(revs, (1..=last).collect::<Vec<u64>>());
    events
}

/// A field of every item of a list.
pub fn texts(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_array().unwrap();
    items
        .iter()
        .map(|item| item.pointer(field).unwrap().as_str().unwrap().to_owned())
        .collect()
}
