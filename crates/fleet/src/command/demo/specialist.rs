//! A specialist of the demo: claims, writes, publishes, completes, until it is told to stand down.
//!
//! All it knows while it works is in [`Work`], and all of that can be had again from the store: that is
//! why a successor, or the same agent without its context, can go on in the middle.
#![expect(
    clippy::disallowed_methods,
    reason = "the demo works in a folder that it makes itself"
)]

use std::fs::{self, OpenOptions};
use std::time::Duration;

use flightline::context::{AcknowledgeBriefing, BriefAgent};
use flightline::core::sortie::{Declared, FileChange};
use flightline::core::text::Note;
use flightline::core::{Code, Data, Name, Refusal, RepoPath, Title};
use flightline::effect::{BeginEffect, FinishEffect};
use flightline::lock::ReleaseLocks;
use flightline::mail::SendMail;
use flightline::sortie::change::{ChangeSortie, SortieAction};
use flightline::sortie::claim::ClaimNext;
use flightline::sortie::report::{FileReport, UpdateSortie};
use flightline::sortie::{ShowSortie, SortieView};
use serde_json::{Value, json};

use super::agent::{Hand, Report};
use super::dispatch::{GO, STAND_DOWN};
use super::part::{LINES, Part, append, ledger, publish, read_or_empty};

/// How long writing a line takes.
const STEP: Duration = Duration::from_millis(150);
/// How long to wait when there is nothing to do.
const IDLE: Duration = Duration::from_millis(60);
/// How long a context takes to be compacted; the others go on meanwhile.
const COMPACTION: Duration = Duration::from_millis(900);
/// Before this line, counted from zero, the mishap strikes.
const MIDDLE: usize = 2;

/// What happens to a specialist in the middle of its first edit.
#[derive(Clone, Copy, Debug)]
pub enum Mishap {
    /// It hangs, and is killed.
    Hang,
    /// It loses its context.
    Forget,
}

/// Everything a specialist has in mind while it works.
struct Work {
    sortie: String,
    part: Part,
    /// Lines that were reported as written.
    reported: usize,
}

/// How a stretch of work ended.
enum Ended {
    Done,
    Forgot,
}

/// Whether an effect is still to be had.
enum Effect {
    Wanted,
    Had,
}

pub fn work(hand: &mut Hand<'_>, mishap: Option<Mishap>) -> Result<(), Refusal> {
    let (mut mishap, mut may_begin) = (mishap, false);
    loop {
        for subject in hand.mail()? {
            match subject.as_str() {
                GO => may_begin = true,
                STAND_DOWN => return Ok(()),
                _ => {}
            }
        }
        let claimed = if may_begin { claim(hand)? } else { None };
        let Some(claimed) = claimed else {
            hand.pause(IDLE)?;
            continue;
        };
        let mut work = Work::of(&claimed)?;
        drop(claimed);
        while let Ended::Forgot = carry_out(hand, work, &mut mishap)? {
            work = remember(hand)?;
        }
    }
}

fn claim(hand: &mut Hand<'_>) -> Result<Option<SortieView>, Refusal> {
    let next = ClaimNext {
        mission: None,
        lock: true,
    };
    match hand.run(&next) {
        Ok(view) => Ok(Some(view)),
        Err(refusal) if matches!(refusal.code, Code::NothingReady | Code::NothingLeft) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

impl Work {
    /// What the store says of a sortie is all that is needed to do it.
    fn of(view: &SortieView) -> Result<Self, Refusal> {
        let input = serde_json::to_value(&view.sortie.input).unwrap_or(Value::Null);
        let number = input["part"].as_u64().ok_or_else(|| {
            Refusal::invalid(format!("{} does not say which part it is", view.sortie.id))
        })?;
        let reported = view.sortie.declared.map_or(0, |counts| counts.completed);
        Ok(Self {
            sortie: view.sortie.id.to_string(),
            part: Part(number),
            reported: usize::try_from(reported).unwrap_or(LINES).min(LINES),
        })
    }
}

/// The context is gone. What the briefing names is looked up in the store, and that is all there is.
fn remember(hand: &mut Hand<'_>) -> Result<Work, Refusal> {
    let briefed = hand.run(&BriefAgent {
        mission: None,
        max_tokens: None,
        minimal: false,
        tree: None,
    })?;
    hand.say(Report::Briefed { text: briefed.text })?;
    hand.run(&AcknowledgeBriefing {
        nonce: briefed.nonce,
    })?;
    let facts = briefed.facts;
    let texts = |quotes: Vec<flightline::core::briefing::Quote>| {
        quotes.into_iter().map(|quote| quote.text).collect()
    };
    hand.say(Report::Recalled {
        next_steps: texts(facts.next_steps),
        in_doubt: texts(facts.effects_in_doubt),
    })?;
    let sortie = facts.sortie.ok_or_else(|| {
        Refusal::new(
            Code::Failed,
            format!("the briefing of {} names no sortie", hand.name),
        )
    })?;
    Work::of(&hand.run(&ShowSortie { sortie: sortie.id })?)
}

/// Does the rest of a sortie. The work is taken by value: when this returns, the agent has forgotten it.
fn carry_out(
    hand: &mut Hand<'_>,
    work: Work,
    mishap: &mut Option<Mishap>,
) -> Result<Ended, Refusal> {
    let effect = begin_effect(hand, &work)?;
    let written = mend(hand, &work)?;
    for at in written..LINES {
        if at == MIDDLE
            && let Some(mishap) = mishap.take()
        {
            return strike(hand, &work, mishap);
        }
        write_line(hand, &work, at)?;
        hand.pause(STEP)?;
    }
    finish_effect(hand, &work, effect)?;
    let (part, file) = (work.part, work.part.file());
    hand.run(&SendMail {
        to: vec!["dispatch".to_owned()],
        subject: Title::parse("subject", &format!("{file} is written and published"))?,
        body: None,
        mission: None,
        acknowledge_within_ms: None,
    })?;
    hand.run(&ChangeSortie {
        sortie: work.sortie.clone(),
        action: SortieAction::Complete {
            output: Some(Data::new(json!({ "published": part.entry() }))?),
        },
        keep_locks: false,
        checkpoint: false,
    })?;
    hand.run(&ReleaseLocks {
        locks: Vec::new(),
        all: true,
        fence: None,
    })?;
    hand.app.settle_backups()?;
    Ok(Ended::Done)
}

/// Sets out to publish. When the effect is in doubt, looks first.
fn begin_effect(hand: &mut Hand<'_>, work: &Work) -> Result<Effect, Refusal> {
    let effect = work.part.effect();
    let mut begin = BeginEffect {
        key: Name::parse("effect", &effect)?,
        mission: None,
        sortie: Some(work.sortie.clone()),
        what: Some(Note::parse(
            "what",
            &format!("one line for {} in the ledger", work.part.file()),
        )?),
        again: false,
        sightings: Vec::new(),
    };
    match hand.run(&begin) {
        Ok(_) => return Ok(Effect::Wanted),
        Err(refusal) if refusal.code == Code::EffectDone => return Ok(Effect::Had),
        Err(refusal) if refusal.code == Code::EffectInDoubt => {}
        Err(refusal) => return Err(refusal),
    }
    let lines = ledger(&hand.root).map_err(|error| hand.file_trouble("the ledger", &error))?;
    let happened = lines.contains(&work.part.entry());
    hand.say(Report::Looked { effect, happened })?;
    if happened {
        finish(hand, work, "found in the ledger")?;
        return Ok(Effect::Had);
    }
    begin.again = true;
    hand.run(&begin)?;
    Ok(Effect::Wanted)
}

fn finish_effect(hand: &mut Hand<'_>, work: &Work, effect: Effect) -> Result<(), Refusal> {
    match effect {
        Effect::Had => Ok(()),
        Effect::Wanted => {
            publish(&hand.root, &work.part.entry())
                .map_err(|error| hand.file_trouble("the ledger", &error))?;
            finish(hand, work, "one line in the ledger")
        }
    }
}

fn finish(hand: &mut Hand<'_>, work: &Work, result: &str) -> Result<(), Refusal> {
    hand.run(&FinishEffect {
        key: Name::parse("effect", &work.part.effect())?,
        mission: None,
        result: Some(Note::parse("result", result)?),
    })?;
    Ok(())
}

/// Removes the text beyond the reported lines: the agent that wrote it was killed in the middle.
fn mend(hand: &mut Hand<'_>, work: &Work) -> Result<usize, Refusal> {
    let file = work.part.file();
    let path = hand.root.join(&file);
    let trouble = |error: std::io::Error| hand.file_trouble(&file, &error);
    let text = read_or_empty(&path).map_err(trouble)?;
    let whole = work.part.whole_lines(&text).min(work.reported);
    let keep = work.part.beginning(whole);
    if text.len() > keep.len() {
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|open| open.set_len(keep.len() as u64).and(open.sync_all()))
            .map_err(trouble)?;
        let dropped = text.get(keep.len()..).unwrap_or(&text).to_owned();
        hand.say(Report::Mended { file, dropped })?;
    }
    Ok(whole)
}

fn write_line(hand: &mut Hand<'_>, work: &Work, at: usize) -> Result<(), Refusal> {
    let (part, file) = (work.part, work.part.file());
    let path = hand.root.join(&file);
    let is_new = !path.exists();
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| append(&path, &part.line(at)))
        .map_err(|error| hand.file_trouble(&file, &error))?;
    let (done, total) = (at + 1, LINES);
    let next = if done < total {
        format!("line {} of {total}", done + 1)
    } else {
        format!("{}: one line in the ledger", part.effect())
    };
    hand.run(&UpdateSortie {
        sortie: work.sortie.clone(),
        note: Some(Note::parse(
            "note",
            &format!("wrote line {done} of {total} of {file}"),
        )?),
        declared: Some(Declared {
            total: total as u64,
            completed: done as u64,
            failed: 0,
        }),
        files: vec![FileReport {
            path: RepoPath::parse(&file)?,
            change: if is_new {
                FileChange::Created
            } else {
                FileChange::Modified
            },
        }],
        last_processed: Some(Title::parse("cursor", &format!("line {done} of {total}"))?),
        next_to_process: Some(Title::parse("cursor", &next)?),
        ..UpdateSortie::default()
    })?;
    Ok(())
}

/// Half a line is written, and then it happens.
fn strike(hand: &mut Hand<'_>, work: &Work, mishap: Mishap) -> Result<Ended, Refusal> {
    let (line, file) = (work.part.line(MIDDLE), work.part.file());
    append(&hand.root.join(&file), &line[..line.len() / 2])
        .map_err(|error| hand.file_trouble(&file, &error))?;
    match mishap {
        Mishap::Forget => {
            hand.say(Report::Forgot)?;
            hand.pause(COMPACTION)?;
            Ok(Ended::Forgot)
        }
        Mishap::Hang => {
            hand.say(Report::MidEdit { file })?;
            loop {
                hand.pause(IDLE)?;
            }
        }
    }
}
