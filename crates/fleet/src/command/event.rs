//! `fleet events` and `fleet log`

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use flightline::core::event::Event;
use flightline::core::time::parse_span;
use flightline::core::{Kind, Refusal, Time};
use flightline::event::{Cursor, ListEvents};
use serde_json::Value;

use super::{Done, typed};
use crate::app::{App, Short};
use crate::ui::{Cell, Page};

#[derive(Debug, Subcommand)]
pub enum EventCommand {
    /// List events, newest first
    List(FilterArgs),
    /// Print new events as they come, oldest first; one JSON document per line with `--json`
    Tail {
        #[command(flatten)]
        filter: FilterArgs,
        /// Begin after this revision (default: the present)
        #[arg(long, value_name = "REV")]
        after: Option<u64>,
        /// Stop after so long, such as `10m` (default: never)
        #[arg(long = "for", value_name = "SPAN", value_parser = typed::span)]
        during: Option<u64>,
    },
}

#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Of this type only, such as `sortie_claimed`
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// About this thing only, by its whole id
    #[arg(long, value_name = "ID")]
    subject: Option<String>,
    /// Not older than this: a time, or a span such as `2h`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    limit: u64,
}

#[derive(Debug, Args)]
pub struct LogArgs {
    #[command(flatten)]
    filter: FilterArgs,
}

pub fn run(command: EventCommand, app: &mut App) -> Done {
    match command {
        EventCommand::List(filter) => {
            let request = filter.request(app, None)?;
            let list = app.run(&request)?;
            let now = app.now()?;
            app.ui.answer(&list, |page| {
                page.at(now);
                let rows: Vec<Vec<Cell>> =
                    list.events.iter().map(|event| row(page, event)).collect();
                page.table(&["REV", "WHEN", "TYPE", "BY", "SUBJECT", "DATA"], &rows);
            })?;
            Ok(ExitCode::SUCCESS)
        }
        EventCommand::Tail {
            filter,
            after,
            during,
        } => tail(&filter, after, during, app),
    }
}

pub fn log(args: &LogArgs, app: &mut App) -> Done {
    let request = args.filter.request(app, None)?;
    let list = app.run(&request)?;
    let (short, now) = (
        app.short(&[Kind::Mission, Kind::Sortie, Kind::Message, Kind::Agent])?,
        app.now()?,
    );
    app.ui.answer(&list, |page| {
        page.at(now);
        let rows: Vec<Vec<Cell>> = list
            .events
            .iter()
            .map(|event| {
                vec![
                    Cell::dim(page.time(event.timestamp)),
                    Cell::new(&event.actor),
                    Cell::new(story(event, &short)),
                ]
            })
            .collect();
        page.table(&[], &rows);
        if rows.is_empty() {
            page.line("Nothing happened yet.");
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

impl FilterArgs {
    fn request(&self, app: &mut App, after: Option<Cursor>) -> Result<ListEvents, Refusal> {
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
            after,
            limit: self.limit,
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

fn tail(filter: &FilterArgs, after: Option<u64>, during: Option<u64>, app: &mut App) -> Done {
    let began = Instant::now();
    let mut cursor = app
        .run(&ListEvents {
            limit: 0,
            ..ListEvents::default()
        })?
        .cursor;
    cursor.rev = after.unwrap_or(cursor.rev);
    let mut request = ListEvents {
        limit: 500,
        ..filter.request(app, None)?
    };
    loop {
        request.after = Some(cursor);
        let list = app.run(&request)?;
        for event in &list.events {
            let line = match app.ui.json {
                true => serde_json::to_string(event).unwrap_or_default(),
                false => format!(
                    "{:>6}  {}  {}  {}  {}  {}",
                    event.rev, event.timestamp, event.kind, event.actor, event.subject, event.data
                ),
            };
            app.ui.print(&line)?;
        }
        cursor = list.cursor;
        if during.is_some_and(|span| began.elapsed() >= Duration::from_millis(span)) {
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
        Cell::dim(data.chars().take(100).collect::<String>()),
    ]
}

/// An event as a sentence's end: what its actor did.
fn story(event: &Event, short: &Short) -> String {
    let what = event.kind.replace('_', " ");
    let subject = match event.subject.split_once('/') {
        Some((id, part)) => format!(
            "{} {}",
            short.id(id),
            part.chars().take(40).collect::<String>()
        ),
        None => short.id(&event.subject),
    };
    let told = [
        "title", "subject", "file", "note", "reason", "message", "key", "to", "step", "path",
    ];
    let data = told.iter().find_map(|field| match &event.data[*field] {
        Value::String(text) => Some(format!(": {}", text.chars().take(80).collect::<String>())),
        _ => None,
    });
    format!("{what}  {subject}{}", data.unwrap_or_default())
}
