//! `fleet sorties`: adds, shows and edits sorties, and moves them from claim to completion.

mod arguments;
mod show;

use std::process::ExitCode;
use std::time::Duration;

use flightline::core::recovery::RecoveryContext;
use flightline::core::sortie::{SortieStatus, called};
use flightline::core::time::human_span;
use flightline::core::{JsonData, Kind, Refusal};
use flightline::sortie::add::{AddSorties, NewSortie};
use flightline::sortie::change::{ChangeSortie, SortieAction};
use flightline::sortie::claim::{ClaimNext, ClaimSortie, claim_next};
use flightline::sortie::queue::{ListQueue, QueuedSortie};
use flightline::sortie::report::{AddReview, ClearErrors, ReportError};
use flightline::sortie::{ListSorties, ResumePoint, ShowSortie, SortieSummary, SortieView};

pub use self::arguments::SortieCommand;
use self::arguments::{AddArgs, ErrorArgs, SortieArg, SortieEndArgs, SortieListArgs};
use self::show::show;
use super::{CommandResult, typed};
use crate::app::{App, DisplayIds};
use crate::ui::{Cell, Page, state};

pub fn run(command: SortieCommand, app: &mut App) -> CommandResult {
    match command {
        SortieCommand::Add(args) => add(&args, app),
        SortieCommand::List(args) => list(&args, app),
        SortieCommand::Show(id) => {
            let view = app.run(&ShowSortie { sortie: id.id })?;
            show(&view, app)
        }
        SortieCommand::Ready => ready(app),
        SortieCommand::Tree => tree(app),
        SortieCommand::Edit(args) => {
            let request = args.request(app)?;
            let view = app.run(&request)?;
            said(app, &view)
        }
        SortieCommand::Cancel { id, reason } => {
            let reason = typed::maybe(reason.as_ref(), |text| typed::note("reason", text))?;
            change(id, SortieAction::Cancel { reason }, app)
        }
        SortieCommand::Move(args) => {
            let sorties = app.run(&args.request())?;
            listed(&sorties, app)
        }
        SortieCommand::Claim {
            id,
            next: _,
            lock,
            wait,
        } => {
            let view = match id {
                Some(sortie) => app.run(&ClaimSortie { sortie, lock })?,
                None => next(lock, wait, app)?,
            };
            say(app, &view, |page, id, view| {
                let owner = view.owner.as_deref().unwrap_or("nobody");
                let yours = match view.already {
                    true => "already yours",
                    false => "now yours",
                };
                page.line(format_args!(
                    "{id}  {}   {yours} ({owner})",
                    view.sortie.called()
                ));
                match &view.recovery_context {
                    Some(context) => take_up(page, view, context),
                    None => {
                        if let Some(instructions) = &view.sortie.resume_instructions {
                            page.block(2, instructions);
                        }
                    }
                }
            })
        }
        SortieCommand::Assign { id, to } => change(id, SortieAction::Assign { to }, app),
        SortieCommand::Reassign { id, to, reason } => {
            let reason = typed::maybe(reason.as_ref(), |text| typed::note("reason", text))?;
            change(id, SortieAction::Reassign { to, reason }, app)
        }
        SortieCommand::Start(id) => {
            let view = app.run(&ChangeSortie {
                sortie: id.id,
                action: SortieAction::Start,
                keep_locks: false,
                checkpoint: false,
            })?;
            say(app, &view, |page, id, view| {
                line(page, &id, view);
                if let Some(context) = &view.recovery_context {
                    take_up(page, view, context);
                }
            })
        }
        SortieCommand::Update(args) => {
            let request = args.request(app)?;
            let Some(view) = app.run_or_keep(&request)? else {
                return Ok(ExitCode::SUCCESS);
            };
            said(app, &view)
        }
        SortieCommand::Error(args) => error(args, app),
        SortieCommand::Block { id, reason } => change(
            id,
            SortieAction::Block {
                reason: typed::note("reason", &reason)?,
            },
            app,
        ),
        SortieCommand::Unblock(id) => change(id, SortieAction::Unblock, app),
        SortieCommand::Resume { id, subtasks } => resume(id, subtasks, app),
        SortieCommand::Complete { id, output, end } => {
            let output = typed::maybe(output.as_ref(), |text| JsonData::parse("output", text))?;
            finish(id, SortieAction::Complete { output }, end, app)
        }
        SortieCommand::Fail { id, reason, end } => {
            let reason = typed::note("reason", &reason)?;
            finish(id, SortieAction::Fail { reason }, end, app)
        }
        SortieCommand::Release { id, reason, end } => {
            let reason = typed::maybe(reason.as_ref(), |text| typed::note("reason", text))?;
            finish(id, SortieAction::Release { reason }, end, app)
        }
        SortieCommand::Review {
            id,
            reviewer,
            score,
            note,
        } => {
            let request = AddReview {
                sortie: id.id,
                reviewer: typed::maybe(reviewer.as_ref(), |text| typed::name("reviewer", text))?,
                score,
                note: typed::maybe(note.as_ref(), |text| typed::note("note", text))?,
            };
            let view = app.run(&request)?;
            say(app, &view, |page, id, view| {
                let scores = view.reviews.iter().map(|review| match review.score {
                    Some(score) => format!("{} {score}", review.reviewer),
                    None => format!("{} asked", review.reviewer),
                });
                page.line(format_args!(
                    "{id}  {}   reviews: {}",
                    view.sortie.called(),
                    scores.collect::<Vec<_>>().join(", ")
                ));
            })
        }
        SortieCommand::Approve { id, reason } => {
            let reason = typed::maybe(reason.as_ref(), |text| typed::note("reason", text))?;
            change(id, SortieAction::Approve { reason }, app)
        }
        SortieCommand::Reject { id, reason } => change(
            id,
            SortieAction::Reject {
                reason: typed::note("reason", &reason)?,
            },
            app,
        ),
    }
}

/// Claims the next sortie that is ready, and waits for one if that was asked for.
fn next(lock: bool, wait: Option<u64>, app: &mut App) -> Result<SortieView, Refusal> {
    let request = ClaimNext {
        mission: None,
        lock,
    };
    app.will_answer("sortie-view")?;
    let (caller, ui) = (app.caller()?, app.ui.clone());
    let wait = Duration::from_millis(wait.unwrap_or(0));
    let mut told = false;
    let mut pause = |span: Duration| {
        if !told {
            told = true;
            let most = human_span(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            ui.talk(format_args!(
                "waiting for a sortie that is ready, at most {most} …"
            ));
        }
        std::thread::sleep(span);
    };
    let claimed = claim_next(app.fleet()?, &request, &caller, wait, &mut pause);
    app.say_noticed();
    let view = claimed.map_err(flightline::Error::into_refusal)?;
    app.ui.written = true;
    Ok(view)
}

/// Prints the context that the previous owner left, in seed A's words.
fn take_up(page: &mut Page, view: &SortieView, context: &RecoveryContext) {
    let or_none = |items: &[String], between: &str| {
        if items.is_empty() {
            "none".to_owned()
        } else {
            items.join(between)
        }
    };
    let by = view.sortie.interrupted.as_ref();
    let by = by.map_or_else(String::new, |before| format!(" ({} had it)", before.owner));
    page.line(format_args!(
        "  Resuming sortie, attempt {}{by}",
        view.sortie.attempts
    ));
    page.block(2, format_args!("Last action: {}", context.last_action));
    page.block(
        2,
        format_args!("Next steps: {}", or_none(&context.next_steps, ", ")),
    );
    page.block(
        2,
        format_args!("Blockers: {}", or_none(&context.blockers, "; ")),
    );
    page.line(format_args!(
        "  Files: {}",
        or_none(&context.files_modified, ", ")
    ));
    for locked in &view.locks {
        page.line(format_args!(
            "  Locked {} (fence {})",
            locked.lock.file, locked.lock.fence
        ));
    }
}

fn add(args: &AddArgs, app: &mut App) -> CommandResult {
    let new = NewSortie {
        title: typed::title("title", &args.title)?,
        description: typed::maybe(args.description.as_ref(), |text| {
            typed::note("description", text)
        })?,
        task_id: typed::maybe(args.task_id.as_ref(), |text| typed::name("task id", text))?,
        depends_on: args.after.clone(),
        files: app.all_lockable(&args.files)?,
        criteria: Vec::new(),
        criteria_texts: typed::titles("criterion", &args.criteria)?,
        priority: args.priority,
        estimate_ms: args.estimate,
        resume_instructions: typed::maybe(args.resume_instructions.as_ref(), |text| {
            typed::note("resume instructions", text)
        })?,
        input: typed::maybe(args.input.as_ref(), |text| JsonData::parse("input", text))?,
    };
    let added = app.run(&AddSorties {
        mission: None,
        sorties: vec![new],
    })?;
    let short = app.short(&[Kind::Sortie], &added)?;
    app.ui.answer(&added, |page| {
        for sortie in &added {
            page.line(format_args!("{}  {}", short.id(sortie.id), name(sortie)));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(args: &SortieListArgs, app: &mut App) -> CommandResult {
    let status = args.status.as_deref().map(read_status).transpose()?;
    let request = ListSorties {
        mission: None,
        status,
        agent: args.owner.clone(),
        limit: args.limit,
    };
    let sorties = app.run(&request)?;
    listed(&sorties, app)
}

fn listed(sorties: &[SortieSummary], app: &mut App) -> CommandResult {
    let short = app.short_of(sorties.iter().map(|sortie| sortie.id))?;
    let now = app.now()?;
    app.ui.answer(&sorties, |page| {
        page.at(now);
        if sorties.is_empty() {
            page.line("No sortie fits.");
        } else {
            table(page, sorties, &short);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn ready(app: &mut App) -> CommandResult {
    let sorties = app.run(&ListQueue {
        mission: None,
        ready: true,
    })?;
    let short = app.short(&[Kind::Sortie], &sorties)?;
    app.ui.answer(&sorties, |page| {
        if sorties.is_empty() {
            page.hint("No sortie is ready. See their dependencies: `fleet sorties tree`");
            return;
        }
        let row = |sortie: &QueuedSortie| {
            vec![
                short.id(sortie.id).into(),
                Cell::new(sortie.priority),
                Cell::new(&sortie.title),
            ]
        };
        let rows: Vec<Vec<Cell>> = sorties.iter().map(row).collect();
        page.table(&["ID", "PRIORITY", "TITLE"], &rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Shows every sortie below the last one that it waits for, and names the others that it waits for.
fn tree(app: &mut App) -> CommandResult {
    let sorties = app.run(&ListQueue::default())?;
    let short = app.short(&[Kind::Sortie], &sorties)?;
    app.ui.answer(&sorties, |page| {
        if sorties.is_empty() {
            page.line("The mission has no sortie yet.");
        }
        let rows: Vec<Vec<Cell>> = branches(&sorties)
            .into_iter()
            .map(|(depth, sortie)| {
                let told = match (&sortie.why, sortie.ready) {
                    (_, true) => "ready".to_owned(),
                    (Some(why), false) => why.clone(),
                    (None, false) => String::new(),
                };
                let title = format!("{}  {}", short.id(sortie.id), sortie.title);
                vec![
                    Cell::new(title).indent(2 * depth),
                    state(sortie.status.as_str()),
                    Cell::dim(told),
                ]
            })
            .collect();
        page.table(&[], &rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Orders sorties with their depth: each below the last one, in the mission's order, of those that it waits for.
fn branches(sorties: &[QueuedSortie]) -> Vec<(usize, &QueuedSortie)> {
    let place = |id| sorties.iter().position(|other| other.id == id);
    let parent = |sortie: &QueuedSortie| {
        let needed = sortie.depends_on.iter().filter_map(|id| place(*id));
        needed.max()
    };
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); sorties.len()];
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (at, sortie) in sorties.iter().enumerate().rev() {
        match parent(sortie) {
            Some(parent) => below[parent].push(at),
            None => open.push((0, at)),
        }
    }
    let mut found = Vec::with_capacity(sorties.len());
    while let Some((depth, at)) = open.pop() {
        found.push((depth, &sorties[at]));
        open.extend(below[at].iter().map(|child| (depth + 1, *child)));
    }
    found
}

fn read_status(word: &str) -> Result<SortieStatus, Refusal> {
    SortieStatus::from_word(&word.replace('-', "_")).ok_or_else(|| {
        let known: Vec<&str> = SortieStatus::ALL
            .iter()
            .map(|status| status.as_str())
            .collect();
        Refusal::invalid(format!("`{word}` is not a status"))
            .hint(format!("statuses: {}", known.join(", ")))
    })
}

pub fn name(sortie: &SortieSummary) -> String {
    called(sortie.task_id.as_ref(), &sortie.title)
}

pub fn table(page: &mut Page, sorties: &[SortieSummary], short: &DisplayIds) {
    let rows: Vec<Vec<Cell>> = sorties
        .iter()
        .map(|sortie| {
            vec![
                short.id(sortie.id).into(),
                state(sortie.status.as_str()),
                Cell::new(sortie.assigned_to.as_deref().unwrap_or("-")),
                Cell::new(page.time(sortie.updated_at)),
                Cell::new(name(sortie)),
            ]
        })
        .collect();
    page.table(&["ID", "STATUS", "OWNER", "CHANGED", "TITLE"], &rows);
}

fn error(args: ErrorArgs, app: &mut App) -> CommandResult {
    let view = if args.clear {
        app.run(&ClearErrors { sortie: args.id.id })?
    } else {
        let message = args.message.ok_or_else(|| {
            Refusal::invalid("an error needs a message")
                .hint("give `--message \"…\"`, or clear errors with `--clear`")
        })?;
        app.run(&ReportError {
            sortie: args.id.id,
            kind: typed::name("type", &args.kind)?,
            status: args.status,
            message: typed::note("message", &message)?,
            blocking: args.blocking,
        })?
    };
    say(app, &view, |page, id, view| {
        let open = view
            .errors
            .iter()
            .filter(|error| error.cleared_at.is_none())
            .count();
        let noun = if open == 1 { "error" } else { "errors" };
        page.line(format_args!(
            "{}  {id}  {}   {open} open {noun}",
            state(view.sortie.status.as_str()),
            view.sortie.called()
        ));
    })
}

fn resume(id: SortieArg, subtasks: bool, app: &mut App) -> CommandResult {
    let view = app.run(&ChangeSortie {
        sortie: id.id,
        action: SortieAction::Resume,
        keep_locks: false,
        checkpoint: false,
    })?;
    say(app, &view, |page, id, view| {
        page.line(format_args!(
            "{id}  {}   {} %",
            view.sortie.called(),
            view.progress.percent
        ));
        if let Some(point) = &view.resume {
            go_on(page, view, point, subtasks);
        }
    })
}

/// Prints where to continue a sortie: the last step, the next step, and the open subtasks.
fn go_on(page: &mut Page, view: &SortieView, point: &ResumePoint, subtasks: bool) {
    for (name, value) in [
        ("Last", &point.last_processed),
        ("Next", &point.next_to_process),
    ] {
        if let Some(value) = value {
            page.line(format_args!("{name}: {value}"));
        }
    }
    if let Some(notes) = &point.notes {
        page.block(0, format_args!("Notes: {notes}"));
    }
    if let Some(instructions) = &point.instructions {
        page.block(0, format_args!("Resume: {instructions}"));
    }
    let mut left: Vec<String> = point
        .left
        .iter()
        .map(|part| part.name.to_string())
        .collect();
    if point.unlisted > 0 {
        left.push(format!("{} that are not listed", point.unlisted));
    }
    if subtasks || !left.is_empty() {
        let done = view.progress.completed;
        let named = if left.is_empty() {
            "none".to_owned()
        } else {
            left.join(", ")
        };
        page.line(format_args!(
            "Subtasks left: {named} ({done} done, skip them)"
        ));
    }
    if subtasks {
        for part in &point.left {
            let title = part
                .title
                .as_ref()
                .map_or_else(String::new, |title| format!("  {title}"));
            page.line(format_args!(
                "  {}  {}{title}",
                state(part.status.as_str()),
                part.name
            ));
        }
    }
}

fn change(id: SortieArg, action: SortieAction, app: &mut App) -> CommandResult {
    finish(id, action, SortieEndArgs::default(), app)
}

fn finish(id: SortieArg, action: SortieAction, end: SortieEndArgs, app: &mut App) -> CommandResult {
    let view = app.run(&ChangeSortie {
        sortie: id.id,
        action,
        keep_locks: end.keep,
        checkpoint: end.checkpoint,
    })?;
    said(app, &view)
}

fn said(app: &mut App, view: &SortieView) -> CommandResult {
    say(app, view, |page, id, view| {
        line(page, &id, view);
        if view.sortie.status == SortieStatus::Completed {
            for (name, met) in &view.sortie.acceptance_criteria {
                if !met {
                    page.line(format_args!("  completed without its criterion `{name}`"));
                }
            }
        }
        super::lock::say_released(page, &view.released_locks);
    })
}

fn line(page: &mut Page, id: &str, view: &SortieView) {
    let owner = view
        .owner
        .as_ref()
        .map_or_else(String::new, |owner| format!("   {owner}"));
    let checkpoint = view.checkpoint.map_or_else(String::new, |id| {
        format!("   checkpoint {}", &id.to_string()[..12])
    });
    let already = match view.already {
        true => "   unchanged: already in that state",
        false => "",
    };
    page.line(format_args!(
        "{}  {id}  {}{owner}   {} %   (mission {} %){checkpoint}{already}",
        state(view.sortie.status.as_str()),
        view.sortie.called(),
        view.progress.percent,
        view.mission_percent
    ));
}

fn say(
    app: &mut App,
    view: &SortieView,
    say: impl FnOnce(&mut Page, String, &SortieView),
) -> CommandResult {
    let short = app.short(&[Kind::Sortie], view)?;
    app.ui
        .answer(view, |page| say(page, short.id(view.sortie.id), view))?;
    Ok(ExitCode::SUCCESS)
}
