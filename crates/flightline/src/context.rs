//! The briefing an agent gets after it lost its context, and the receipt for it.

mod cause;
pub mod past;
pub mod peek;
pub mod receipt;

use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::briefing::{
    AgentFacts, Budget, Cause, Facts, FileFact, FileMark, MailFact, Mode, ModeFacts, Moment, Quote,
    ReminderReason, SortieFacts, recall_line, write,
};
use flightline_core::context::remaining_steps;
use flightline_core::dialect::Dialect;
use flightline_core::effect::{Effect, EffectState};
use flightline_core::event::{Event, EventType, sha256_hex};
use flightline_core::file_system::TreeNow;
use flightline_core::message::{Delivery, DeliveryState, Message};
use flightline_core::mission::Mission;
use flightline_core::note::{Note, NoteKind};
use flightline_core::recovery::{OwnContext, OwnWork, own_context};
use flightline_core::setting::{Briefing, Form, NonceSecret, Receipt};
use flightline_core::sortie::{FileChange, Sortie, SortieError, SortieFile, Subtask};
use flightline_core::{Code, Kind, Refusal, Subject, Time};
use flightline_store::{EventFilter, Find};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::cause::background;
use self::receipt::{given, offer};
use crate::checkpoint::newest_first;
use crate::checkpoint::recovery_context::{context, last_standing_act};
use crate::effect::is_under_way;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull, to_json};
use crate::mail::bring_up_to_date;
use crate::mission::short;
use crate::op_context::OpContext;
use crate::recovery::claims::compare;
use crate::recovery::undone::{Undone, last_rewind};
use crate::sortie::subtask_progress;

/// Maximum number of events that are searched for changes meanwhile.
const CHANGES_LOOKED_AT: u64 = 200;

/// Returns the acting agent's own recovery context as text. The offer is recorded.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct BriefAgent {
    /// The mission of the briefing; the current one when none is named.
    pub mission: Option<String>,
    /// Maximum number of tokens of the briefing.
    pub max_tokens: Option<usize>,
    /// Include only the required parts.
    #[serde(default)]
    pub minimal: bool,
    /// The work tree as the caller sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeNow>,
}

/// Delivers the acting agent's recovery context without being asked for all of it: in full once per session and
/// compaction, once more in full while it is not acknowledged, then in one line.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct DeliverBriefing {
    /// The mission of the briefing; the current one when none is named.
    pub mission: Option<String>,
    /// Maximum number of tokens of the briefing.
    pub max_tokens: Option<usize>,
    /// Include only the required parts.
    pub minimal: bool,
    /// The work tree as the caller sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeNow>,
}

/// Acknowledges that a briefing was read.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct AcknowledgeBriefing {
    /// The nonce that stands in the briefing.
    pub nonce: String,
}

/// A briefing and the facts it was made from.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Briefed {
    /// The text for the agent.
    pub text: String,
    /// The facts from which the briefing was made.
    pub facts: Facts,
    /// The nonce with which the briefing is acknowledged.
    pub nonce: String,
    /// The state of the delivery: pending, offered, acknowledged or expired.
    pub receipt: Receipt,
    /// The form of the text: the whole briefing, or one line.
    pub form: Form,
}

impl Operation for BriefAgent {
    const NAME: &'static str = "brief_agent";
    const IS_ACT: bool = false;
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::Answered;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Briefed;

    fn asked(&self) -> Result<String> {
        to_json(&Self {
            tree: None,
            ..self.clone()
        })
    }

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Briefed> {
        let (mission, mut briefed) = self.write(ctx, nonce)?;
        let agent = ctx.agent.clone();
        briefed.receipt = match &agent {
            Some(agent) => offer(ctx, agent, &mission, &briefed.nonce, 0)?,
            None => Receipt::Pending,
        };
        Ok(briefed)
    }
}

impl BriefAgent {
    /// Writes it, fenced with what `word` makes. Records nothing.
    fn write(
        &self,
        ctx: &mut OpContext<'_, '_>,
        word: fn(&mut OpContext<'_, '_>, &str) -> Result<String>,
    ) -> Result<(Mission, Briefed)> {
        let mission = ctx.mission(self.mission.as_deref())?;
        let facts = facts(ctx, &mission, self.tree.as_ref())?;
        let (name, turn) = ctx
            .agent
            .as_ref()
            .map_or(("", 0), |agent| (agent.name.as_str(), agent.context));
        let nonce = format!("{}/{name}/{turn}/{}", mission.id, facts.rev);
        let nonce = word(ctx, &nonce)?;
        let mut budget = Budget::default();
        budget.max_tokens = self.max_tokens.unwrap_or(budget.max_tokens);
        let mode = if self.minimal || facts.mode.is_some() {
            Mode::Minimal
        } else {
            Mode::Full
        };
        let briefed = Briefed {
            text: write(&facts, &nonce, budget, mode)?,
            facts,
            nonce,
            receipt: Receipt::Pending,
            form: Form::Full,
        };
        Ok((mission, briefed))
    }
}

impl Operation for DeliverBriefing {
    const NAME: &'static str = "deliver_briefing";
    const IS_ACT: bool = false;
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::Answered;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Briefed;

    fn asked(&self) -> Result<String> {
        to_json(&Self {
            tree: None,
            ..self.clone()
        })
    }

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Briefed> {
        let agent = ctx.acting()?.clone();
        let request = BriefAgent {
            mission: self.mission.clone(),
            max_tokens: self.max_tokens,
            minimal: self.minimal,
            tree: self.tree.clone(),
        };
        let (mission, mut briefed) = request.write(ctx, nonce)?;
        let given = given(ctx, &agent, &mission)?;
        let Some(last) = given.last().filter(|_| Form::next(&given) == Form::Line) else {
            briefed.receipt = offer(ctx, &agent, &mission, &briefed.nonce, 1)?;
            return Ok(briefed);
        };
        let recall = match last.receipt {
            Receipt::Acknowledged { .. } => ReminderReason::Read,
            Receipt::Pending | Receipt::Offered { .. } | Receipt::Expired { .. } => {
                ReminderReason::Waiting
            }
        };
        Ok(Briefed {
            text: recall_line(&short(mission.id), Some(&agent.name), recall)?,
            nonce: last.nonce.clone(),
            receipt: last.receipt,
            form: Form::Line,
            ..briefed
        })
    }
}

impl Operation for AcknowledgeBriefing {
    const NAME: &'static str = "acknowledge_briefing";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Briefing;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Briefing> {
        let agent = ctx.acting()?.clone();
        let briefings = ctx.tx.find::<Briefing>(Find::Agent(agent.id))?;
        let found = briefings
            .into_iter()
            .rev()
            .find(|briefing| briefing.nonce == self.nonce);
        let Some(mut briefing) = found else {
            return Err(Refusal::new(
                Code::NotFound,
                format!("{} was offered no briefing with that word", agent.name),
            )
            .hint(format!(
                "get the present one with `fleet context --agent {}`",
                agent.name
            ))
            .into());
        };
        if matches!(briefing.receipt, Receipt::Expired { .. }) {
            return Err(Refusal::new(
                Code::IllegalTransition,
                format!(
                    "that briefing of {} is over: a newer one has taken its place",
                    agent.name
                ),
            )
            .hint(format!(
                "get the present one with `fleet context --agent {}`",
                agent.name
            ))
            .into());
        }
        if !matches!(briefing.receipt, Receipt::Acknowledged { .. }) {
            briefing.receipt = Receipt::Acknowledged { at: ctx.now() };
            ctx.tx.set(
                EventType::BriefingAcknowledged,
                &briefing,
                &json!({ "agent": agent.name }),
            )?;
        }
        Ok(briefing)
    }
}

/// The word that fences quoted text about `what`. An author of the text cannot know it beforehand.
pub(crate) fn nonce(ctx: &mut OpContext<'_, '_>, what: &str) -> Result<String> {
    let secret = secret(ctx)?;
    Ok(sha256_hex(&format!("{secret}/{what}"))[..8].to_owned())
}

/// The store's secret, made when it is first needed.
fn secret(ctx: &mut OpContext<'_, '_>) -> Result<String> {
    if let Some(known) = ctx.tx.get::<NonceSecret>(NonceSecret::KEY)? {
        return Ok(known.value);
    }
    let made = NonceSecret {
        value: ctx.tx.uuid().to_string(),
    };
    ctx.tx.set(EventType::SecretMade, &made, &json!({}))?;
    Ok(made.value)
}

/// The facts for a briefing, as the acting agent sees them; as dispatch sees them when no agent acts.
fn facts(ctx: &mut OpContext<'_, '_>, mission: &Mission, tree: Option<&TreeNow>) -> Result<Facts> {
    let agent = ctx.agent.clone();
    let (rev, at) = content_rev(ctx, mission)?;
    let quote = |author: &str, text: &str| Quote {
        author: author.to_owned(),
        text: text.to_owned(),
    };
    let all = context(ctx, mission, Vec::new())?;
    let mine: Vec<Sortie> = match &agent {
        Some(agent) => {
            let held = ctx.tx.find::<Sortie>(Find::Agent(agent.id))?;
            held.into_iter()
                .filter(|sortie| sortie.mission_id == mission.id && sortie.status.is_held())
                .collect()
        }
        None => Vec::new(),
    };
    let sortie = mine.first();
    let notes = crate::note::of_mission(ctx, mission.id)?;
    let of = |kind: NoteKind| -> Vec<Quote> {
        let wanted = notes.iter().filter(|note| note.kind == kind);
        wanted
            .map(|note| match &note.rationale {
                Some(why) => quote(&note.author, &format!("{} (because {why})", note.told())),
                None => quote(&note.author, &note.told()),
            })
            .collect()
    };
    let agents = ctx.tx.find::<Agent>(Find::All)?;
    let effects = ctx.tx.find::<Effect>(Find::Mission(mission.id))?;
    let described = |effect: &Effect| match &effect.what {
        Some(what) => quote(&effect.by, &format!("{}: {what}", effect.key)),
        None => quote(&effect.by, effect.key.as_str()),
    };
    let (done, begun): (Vec<&Effect>, Vec<&Effect>) = effects
        .iter()
        .partition(|effect| matches!(effect.state, EffectState::Done { .. }));
    let mut doubt = Vec::new();
    for effect in begun {
        let own = agent.as_ref().map(|agent| agent.id) == effect.agent_id;
        if own || !is_under_way(ctx, effect)? {
            doubt.push(effect);
        }
    }
    let own = if mine.is_empty() {
        let as_quotes = |items: &[String]| {
            let quotes = items.iter().map(|item| quote("flightline", item));
            quotes.collect()
        };
        OwnContext {
            last_action: quote("flightline", &all.last_action),
            next_steps: as_quotes(&all.next_steps),
            blockers: as_quotes(&all.blockers),
            files: changed_files(ctx, mission)?,
        }
    } else {
        own(ctx, agent.as_ref(), &mine, &all.last_action)?
    };
    let mut own = own;
    let reads_less = agent.as_ref().filter(|agent| !agent.mode.is_normal());
    if let Some(agent) = reads_less
        && let Some(sortie) = sortie
    {
        own.next_steps = left(ctx, agent, sortie)?;
    }
    let checkpoint = newest_first(ctx, mission)?.first().map(|newest| newest.id);
    let (checked, _) = compare(ctx, mission, checkpoint, tree)?;
    let files = own.files.into_iter().map(|path| FileFact {
        mark: checked
            .as_ref()
            .and_then(|checked| checked.mark(&path))
            .unwrap_or(FileMark::Claimed),
        path,
    });
    let progress = sortie
        .map(|sortie| subtask_progress(ctx, sortie))
        .transpose()?;
    let background = background(ctx, mission, agent.as_ref(), sortie, &agents)?;
    let moved = checked.as_ref().and_then(|it| it.head_moved.as_ref());
    // The name of a branch is quoted text, like everything that git says.
    let moved = moved.map(|moved| quote("git", &moved.told()));
    let mut seen: Vec<Quote> = moved.into_iter().collect();
    if let Cause::Rewind { .. } = background.cause {
        seen.extend(left_behind(ctx, mission)?);
    }
    seen.extend(changes(ctx, mission, agent.as_ref())?);
    Ok(Facts {
        mission_title: quote("mission", &mission.title),
        mission_id: short(mission.id),
        sortie: sortie.map(|sortie| SortieFacts {
            id: short(sortie.id),
            title: quote("sortie", &sortie.title),
            status: sortie.status,
            attempt: sortie.attempts,
            progress,
        }),
        agent: agent.as_ref().map(|agent| AgentFacts {
            name: agent.name.clone(),
            epoch: agent.epoch,
            role: agent.role,
        }),
        checkpoint: checkpoint.map(short),
        rev,
        progress_percent: ctx.progress(mission.id)?.percent(),
        last_action: Some(own.last_action),
        constraints: constraints(&notes),
        effects_done: done.into_iter().map(described).collect(),
        effects_in_doubt: doubt.into_iter().map(described).collect(),
        next_steps: own.next_steps,
        blockers: own.blockers,
        files: files.collect(),
        decisions: of(NoteKind::Decision),
        dead_ends: of(NoteKind::DeadEnd),
        changes: seen,
        mail: mail(ctx, agent.as_ref())?,
        // Both as of the last change: however late it is asked for, the text is the same.
        elapsed_ms: at.since(mission.started_at.unwrap_or(mission.created_at)),
        last_activity_at: last_standing_act(ctx, mission)?.map(|event| event.happened_at()),
        mode: reads_less.map(|agent| ModeFacts {
            mode: agent.mode,
            protocol_files: ctx.policy.speaks(Dialect::Recovery),
        }),
        cause: background.cause,
        predecessor: background.predecessor,
        moment: Moment::Now,
    })
}

/// The remaining steps of a sortie, for an agent in minimal mode: how to take it up, then step by step.
fn left(ctx: &mut OpContext<'_, '_>, agent: &Agent, sortie: &Sortie) -> Result<Vec<Quote>> {
    let subtasks = ctx.tx.find::<Subtask>(Find::Parent(&sortie.key()))?;
    let steps = remaining_steps(sortie, &subtasks, Some(agent));
    let instructions = sortie.resume_instructions.iter().map(ToString::to_string);
    let author = agent.name.to_string();
    let quotes = instructions.chain(steps).map(|text| Quote {
        author: author.clone(),
        text,
    });
    Ok(quotes.collect())
}

/// The rules that bind every agent on a mission, by any author: who may pin was decided when they were noted.
fn constraints(notes: &[Note]) -> Vec<Quote> {
    let binding = notes
        .iter()
        .filter(|note| note.kind == NoteKind::Constraint);
    binding.map(crate::note::quote).collect()
}

/// The last revision that changed anything but briefings, and when, so that asking twice gives the same
/// bytes. Where far too many briefings were given since, it is the last work on the mission.
fn content_rev(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<(u64, Time)> {
    for limit in [50, 1_000] {
        let events = ctx.tx.newest_events(&EventFilter {
            limit,
            ..EventFilter::default()
        })?;
        let last = events.iter().find(|event| {
            !matches!(event.subject_kind, Kind::Briefing | Kind::Setting)
                && !event.is(EventType::AgentRegistered)
                // Mail about events is listed in no briefing.
                && event.data.get("tells_of").is_none()
        });
        if let Some(event) = last {
            return Ok((event.rev, event.timestamp));
        }
    }
    let work = ctx.tx.newest_work(mission.id, |_| true)?.event;
    Ok(work.map_or((0, mission.created_at), |event| {
        (event.rev, event.timestamp)
    }))
}

/// An agent's own view of the sorties it holds.
pub(crate) fn own(
    ctx: &mut OpContext<'_, '_>,
    agent: Option<&Agent>,
    sorties: &[Sortie],
    last_act: &str,
) -> Result<OwnContext> {
    let (mut errors, mut files) = (Vec::new(), Vec::new());
    let notes = match sorties.first() {
        Some(first) => crate::note::of_mission(ctx, first.mission_id)?,
        None => Vec::new(),
    };
    for sortie in sorties {
        errors.extend(ctx.tx.find::<SortieError>(Find::Parent(&sortie.key()))?);
        files.extend(ctx.tx.find::<SortieFile>(Find::Parent(&sortie.key()))?);
    }
    Ok(own_context(&OwnWork {
        agent,
        sorties,
        errors: &errors,
        files: &files,
        notes: &notes,
        last_act,
    }))
}

fn changed_files(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Vec<String>> {
    let mut files = ctx.tx.find::<SortieFile>(Find::Mission(mission.id))?;
    files.retain(|file| file.change != FileChange::Deleted);
    let mut paths: Vec<String> = files
        .into_iter()
        .map(|file| file.path.to_string())
        .collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Returns quotes of the work that a mission's last rewind left behind.
fn left_behind(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Vec<Quote>> {
    let lost = last_rewind(ctx, mission.id)?.map_or_else(Vec::new, |rewind| rewind.lost);
    let told = lost.into_iter().map(|text| Quote {
        author: "flightline".to_owned(),
        text: format!("left behind: {text}"),
    });
    Ok(told.collect())
}

/// Returns the acts of others since the agent's last act.
fn changes(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    agent: Option<&Agent>,
) -> Result<Vec<Quote>> {
    let Some(agent) = agent else {
        return Ok(Vec::new());
    };
    let filter = EventFilter {
        mission: Some(mission.id),
        limit: CHANGES_LOOKED_AT,
        ..EventFilter::default()
    };
    let undone = Undone::of(ctx, mission.id)?;
    let mut events = ctx.tx.newest_events(&filter)?;
    // The events that a rewind took back are told by the rewind.
    events.retain(|event| undone.at(event.rev).is_none());
    // Coming back, and being told so, is no work: the agent has not seen more because of it.
    let since = events
        .iter()
        .take_while(|event| event.actor != agent.name.as_str() || !event.is_work());
    let told = since.filter(|event| {
        matches!(
            event.event_type(),
            Some(
                EventType::SortieCompleted
                    | EventType::SortieClaimed
                    | EventType::SortieFailed
                    | EventType::SortieBlocked
                    | EventType::SortieRequeued
                    | EventType::SortieReassigned
                    | EventType::LockStolen
                    | EventType::LockReclaimed
                    | EventType::FleetRecovered
                    | EventType::MissionTransitioned
                    | EventType::SortieAdded
                    | EventType::NoteAdded
            )
        )
    });
    let told: Vec<&Event> = told.collect();
    let mut changes = Vec::new();
    for event in told {
        let text = |field: &str| event.data[field].as_str().map(str::to_owned);
        let about = match text("title").or_else(|| text("file")) {
            Some(about) => about,
            None => match ctx.tx.get::<Sortie>(&event.subject)? {
                Some(sortie) => format!("\"{}\"", sortie.title),
                None => short(&event.subject),
            },
        };
        changes.push(Quote {
            author: event.actor.clone(),
            text: format!("{} {about}", event.kind.replace('_', " ")),
        });
    }
    Ok(changes)
}

fn mail(ctx: &mut OpContext<'_, '_>, agent: Option<&Agent>) -> Result<Vec<MailFact>> {
    let Some(agent) = agent else {
        return Ok(Vec::new());
    };
    let mut facts = Vec::new();
    for delivery in ctx.tx.find::<Delivery>(Find::Agent(agent.id))? {
        if matches!(delivery.state, DeliveryState::Acknowledged { .. }) {
            continue;
        }
        if delivery.digest.is_some() {
            continue;
        }
        if let Some(mut message) = ctx.tx.get::<Message>(delivery.message_id)? {
            bring_up_to_date(ctx, &mut message, &delivery)?;
            facts.push(MailFact {
                id: short(message.id),
                subject: Quote {
                    author: message.from,
                    text: message.subject.to_string(),
                },
            });
        }
    }
    Ok(facts)
}
