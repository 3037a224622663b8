//! Checks the store when the script has been played.

use flightline::core::event::EventType;
use serde::Serialize;
use serde_json::Value;

use super::DemoStep;
use super::stage::Stage;

#[derive(Debug, Serialize)]
pub struct DemoCheck {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
}

pub fn run(stage: &mut Stage, acts: &[DemoStep]) -> Vec<DemoCheck> {
    let rows: [(&'static str, Option<(bool, String)>); 8] = [
        ("every command ended as it should", Some(endings(acts))),
        (
            "every part was completed once, and bob's by ada",
            completed(stage),
        ),
        (
            "bob's part came back because his process is gone",
            requeued(stage),
        ),
        ("nothing was published twice", published(stage)),
        ("the dead session wrote nothing", fenced(acts)),
        (
            "carol's briefing had the rule, and she acknowledged it",
            briefed(stage, acts),
        ),
        (
            "checkpoints were taken at 25, 50, 75 and 100 %, and are sound",
            checkpoints(stage),
        ),
        (
            "nothing is left: no lock, no work of a dead agent",
            left(stage),
        ),
    ];
    rows.into_iter()
        .map(|(name, found)| {
            let (ok, detail) =
                found.unwrap_or_else(|| (false, "the store could not be asked".to_owned()));
            DemoCheck { name, ok, detail }
        })
        .collect()
}

fn endings(acts: &[DemoStep]) -> (bool, String) {
    let wrong = acts.iter().find(|act| act.exit_code != Some(act.expected));
    let detail = wrong.map_or_else(
        || format!("{} commands", acts.len()),
        |act| {
            let (ended, expected) = (act.exit_code, act.expected);
            format!("{}: exit code {ended:?}, not {expected}", act.command)
        },
    );
    (wrong.is_none(), detail)
}

fn events(stage: &Stage, kind: EventType) -> Option<Vec<Value>> {
    let found = stage.ask(&format!("events list --type {kind}"))?;
    found["events"].as_array().cloned()
}

fn completed(stage: &Stage) -> Option<(bool, String)> {
    let all = events(stage, EventType::SortieCompleted)?;
    let requeued = events(stage, EventType::SortieRequeued)?;
    let taken = requeued.first().map(|event| &event["subject"]);
    let mut subjects: Vec<&str> = all.iter().filter_map(|it| it["subject"].as_str()).collect();
    subjects.sort_unstable();
    subjects.dedup();
    let by = all
        .iter()
        .find(|event| Some(&event["subject"]) == taken)
        .and_then(|event| event["actor"].as_str());
    let ok = all.len() == 4 && subjects.len() == 4 && by == Some("ada");
    Some((
        ok,
        format!("{} completions of {} parts", all.len(), subjects.len()),
    ))
}

fn requeued(stage: &Stage) -> Option<(bool, String)> {
    let all = events(stage, EventType::SortieRequeued)?;
    let data = &all.first()?["data"];
    let reason = data["reason"].as_str().unwrap_or_default().to_owned();
    let ok = all.len() == 1 && data["from"] == "bob" && reason.ends_with(" is gone");
    Some((ok, reason))
}

fn published(stage: &Stage) -> Option<(bool, String)> {
    let done = events(stage, EventType::EffectDone)?;
    let lines = stage.lines_of("published.txt");
    let detail = format!("{} in the ledger, {} in the journal", lines, done.len());
    Some((lines == 1 && done.len() == 1, detail))
}

fn fenced(acts: &[DemoStep]) -> Option<(bool, String)> {
    let last = acts.iter().rfind(|act| act.who.as_deref() == Some("bob"))?;
    let first = last.output.lines().next().unwrap_or_default();
    Some((last.exit_code == Some(4), first.to_owned()))
}

fn briefed(stage: &Stage, acts: &[DemoStep]) -> Option<(bool, String)> {
    let mut all = acts.iter();
    let briefing = all.find(|act| act.command.starts_with("fleet context --minimal"))?;
    let read = events(stage, EventType::BriefingAcknowledged)?;
    let has_rule = briefing.output.contains("Publish each part exactly once");
    let by_carol = read.len() == 1 && read.first()?["actor"] == "carol";
    let lines = briefing.output.lines().count();
    Some((has_rule && by_carol, format!("{lines} lines")))
}

fn checkpoints(stage: &Stage) -> Option<(bool, String)> {
    let listed = stage.ask("checkpoints list")?;
    let mut percents: Vec<u64> = listed
        .as_array()?
        .iter()
        .filter_map(|it| it["progress_percent"].as_u64())
        .collect();
    percents.sort_unstable();
    percents.dedup();
    let sound = stage.ask("checkpoints verify").is_some();
    let said: Vec<String> = percents.iter().map(ToString::to_string).collect();
    Some((
        sound && [25, 50, 75, 100].iter().all(|it| percents.contains(it)),
        format!("at {} %", said.join(", ")),
    ))
}

fn left(stage: &Stage) -> Option<(bool, String)> {
    let status = stage.ask("status")?;
    let locks = status["locks"].as_array()?.len();
    let state = status["mission"]["mission"]["status"].as_str()?.to_owned();
    let detail = format!("the mission is {state}, {locks} locks");
    Some((locks == 0 && state == "completed", detail))
}
