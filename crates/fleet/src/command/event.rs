//! `fleet events` and `fleet log`: shows the journal as a list, as a stream, and as a story.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use flightline::core::event::Event;
use flightline::core::narrate::{Narrator, who};
use flightline::core::time::parse_span;
use flightline::core::{Kind, Refusal, Time};
use flightline::event::{EventList, ListEvents};

use super::{CommandResult, typed};
use crate::app::{App, DisplayIds};
use crate::ui::{Cell, Page};

#[derive(Debug, Subcommand)]
pub enum EventCommand {
    /// List events, newest first
    List(EventListArgs),
    /// Print new events as they arrive, oldest first; one JSON document per line with `--json`
    Tail {
        #[command(flatten)]
        filter: FilterArgs,
        /// Stop after this number of events
        #[arg(long)]
        limit: Option<u64>,
        /// Start after this revision (default: the newest one)
        #[arg(long, value_name = "REV")]
        after: Option<u64>,
        /// Stop after this time, such as `10m` (default: never)
        #[arg(long = "for", value_name = "SPAN", value_parser = typed::span)]
        during: Option<u64>,
    },
}

#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Only events of this type, such as `sortie_claimed`
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only events about the record with this full id
    #[arg(long, value_name = "ID")]
    subject: Option<String>,
    /// Only events since this time, or within a span such as `2h`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
}

#[derive(Debug, Args)]
pub struct EventListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number of events
    #[arg(long, default_value_t = 50)]
    limit: u64,
}

pub fn run(command: EventCommand, app: &mut App) -> CommandResult {
    match command {
        EventCommand::List(args) => {
            let request = args.filter.request(app, args.limit)?;
            let list = app.run(&request)?;
            let now = app.now()?;
            app.ui.answer(&list, |page| {
                page.at(now);
                if list.events.is_empty() {
                    page.line("No event fits.");
                    return;
                }
                let rows: Vec<Vec<Cell>> =
                    list.events.iter().map(|event| row(page, event)).collect();
                page.table(&["REV", "WHEN", "TYPE", "BY", "SUBJECT", "DATA"], &rows);
            })?;
            Ok(ExitCode::SUCCESS)
        }
        EventCommand::Tail {
            filter,
            limit,
            after,
            during,
        } => {
            let request = filter.request(app, limit.unwrap_or(u64::MAX))?;
            tail(request, after, during, app)
        }
    }
}

#[derive(Debug, Args)]
pub struct LogArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number of events
    #[arg(short = 'n', long, default_value_t = 50)]
    limit: u64,
    /// Print oldest first, then new events as they arrive
    #[arg(short, long)]
    follow: bool,
    /// Stop following after this time, such as `10m` (default: never)
    #[arg(long = "for", value_name = "SPAN", value_parser = typed::span, requires = "follow")]
    during: Option<u64>,
}

pub fn log(args: &LogArgs, app: &mut App) -> CommandResult {
    let request = ListEvents {
        story: true,
        ..args.filter.request(app, args.limit)?
    };
    if args.follow {
        return follow(request, args.during, app);
    }
    let list = app.run(&request)?;
    let (short, now) = (shortener(app, &list)?, app.now()?);
    app.ui.answer(&list, |page| {
        page.at(now);
        let rows: Vec<Vec<Cell>> = list
            .events
            .iter()
            .map(|event| {
                vec![
                    Cell::dim(page.time(event.timestamp)),
                    Cell::new(who(event)),
                    Cell::new(story(event, &short, &list.names)),
                ]
            })
            .collect();
        page.table(&[], &rows);
        if rows.is_empty() {
            page.line("No such event yet.");
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the last events, oldest first, and then new ones as they come.
fn follow(request: ListEvents, during: Option<u64>, app: &mut App) -> CommandResult {
    let began = Instant::now();
    let mut list = app.run(&request)?;
    list.events.reverse();
    loop {
        if !list.events.is_empty() {
            // Events that came meanwhile may be about new things.
            let short = shortener(app, &list)?;
            for event in &list.events {
                let line = format!(
                    "{}  {}  {}",
                    event.timestamp.to_seconds(),
                    who(event),
                    story(event, &short, &list.names)
                );
                app.ui.element(event, line)?;
            }
        }
        if during.is_some_and(|span| began.elapsed() >= Duration::from_millis(span)) {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_millis(200));
        list = app.run(&ListEvents {
            after: Some(list.cursor),
            limit: BATCH,
            ..request.clone()
        })?;
    }
}

fn shortener(app: &mut App, shown: &EventList) -> Result<DisplayIds, Refusal> {
    app.short(
        &[
            Kind::Mission,
            Kind::Sortie,
            Kind::Message,
            Kind::Agent,
            Kind::Checkpoint,
        ],
        shown,
    )
}

impl FilterArgs {
    fn request(&self, app: &mut App, limit: u64) -> Result<ListEvents, Refusal> {
        let since = match &self.since {
            Some(text) => Some(since(text, app)?),
            None => None,
        };
        let caller = app.caller()?;
        Ok(ListEvents {
            mission: caller.mission,
            subject: self.subject.clone(),
            kind: self.kind.clone(),
            since,
            after: None,
            limit,
            story: false,
            before: None,
        })
    }
}

fn since(text: &str, app: &mut App) -> Result<Time, Refusal> {
    match text.parse::<Time>() {
        Ok(time) => Ok(time),
        Err(not_a_time) => match parse_span(text, "s") {
            Ok(span) => Ok(app.now()?.minus(span)),
            Err(_) => {
                Err(Refusal::invalid(not_a_time.to_string()).hint("or as a span, such as `2h`"))
            }
        },
    }
}

/// The most events of one request.
const BATCH: u64 = 500;

fn tail(
    request: ListEvents,
    after: Option<u64>,
    during: Option<u64>,
    app: &mut App,
) -> CommandResult {
    let began = Instant::now();
    let mut left = request.limit;
    let nothing = ListEvents {
        limit: 0,
        ..ListEvents::default()
    };
    let mut cursor = app.run(&nothing)?.cursor;
    cursor.rev = after.unwrap_or(cursor.rev);
    loop {
        let list = app.run(&ListEvents {
            after: Some(cursor),
            limit: left.min(BATCH),
            ..request.clone()
        })?;
        for event in &list.events {
            let line = format_args!(
                "{:>6}  {}  {}  {}  {}  {}",
                event.rev, event.timestamp, event.kind, event.actor, event.subject, event.data
            );
            app.ui.element(event, line)?;
        }
        left = left.saturating_sub(list.events.len() as u64);
        cursor = list.cursor;
        let over = during.is_some_and(|span| began.elapsed() >= Duration::from_millis(span));
        if left == 0 || over {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn row(page: &Page, event: &Event) -> Vec<Cell> {
    let data = if event
        .data
        .as_object()
        .is_some_and(serde_json::Map::is_empty)
    {
        String::new()
    } else {
        event.data.to_string()
    };
    vec![
        Cell::new(event.rev),
        Cell::new(page.time(event.timestamp)),
        Cell::new(&event.kind),
        Cell::new(&event.actor),
        Cell::new(event.subject.chars().take(49).collect::<String>()),
        Cell::dim(data.chars().take(100).collect::<String>().trim_end()),
    ]
}

/// Tells the act of an event's actor, in the words that every story uses.
pub fn story(event: &Event, short: &DisplayIds, names: &BTreeMap<String, String>) -> String {
    let narrator = Narrator {
        names,
        short: &|id| short.id(id),
    };
    narrator.tell(event)
}
