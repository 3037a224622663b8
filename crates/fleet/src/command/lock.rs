//! `fleet locks`: acquires, renews, releases, lists, checks and steals locks.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use flightline::core::Refusal;
use flightline::core::time::human_span;
use flightline::lock::{
    AcquireLocks, CheckLocks, ListLocks, LockView, PathCheck, ReleaseLocks, RenewLocks, StealLock,
    acquire,
};

use super::{ATTENTION, CommandResult, typed};
use crate::app::App;
use crate::complete;
use crate::ui::{Cell, GREEN, Page, RED};

#[derive(Debug, Subcommand)]
pub enum LockCommand {
    /// Lock files or folders for the acting agent: all of them or none
    Acquire {
        /// A file, a folder or a pattern such as 'src/**/*.rs': `*` and `?` within a name, `**` for any folders, `[a-z]`;
        /// a backslash escapes such a character. More: `fleet help locks`
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
        /// Time to live after your last write or heartbeat, such as `30m`
        #[arg(long, value_parser = typed::span)]
        ttl: Option<u64>,
        /// What the locks are needed for, shown in `fleet locks list`
        #[arg(long, allow_hyphen_values = true)]
        purpose: Option<String>,
        /// The sortie the locks belong to (default: your current one)
        #[arg(long, value_name = "ID", add = complete::sorties())]
        sortie: Option<String>,
        /// Wait for the locks up to this time, such as `15m`
        #[arg(long, value_name = "AT MOST", value_parser = typed::span)]
        wait: Option<u64>,
    },
    /// Renew locks
    Renew {
        /// A locked path, or the id of a lock
        #[arg(required = true, value_name = "PATH", add = complete::locks())]
        locks: Vec<String>,
        /// The fence of your grant; refused if it is void
        #[arg(long)]
        fence: Option<u64>,
        /// The new time to live, such as `30m`
        #[arg(long, value_parser = typed::span)]
        ttl: Option<u64>,
    },
    /// Release locks
    Release {
        /// A locked path, or the id of a lock
        #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "PATH", add = complete::locks())]
        locks: Vec<String>,
        /// Release all locks you hold
        #[arg(long)]
        all: bool,
        /// The fence of your grant; refused if it is void
        #[arg(long)]
        fence: Option<u64>,
    },
    /// List locks
    List {
        /// Only locks of this agent
        #[arg(long, value_name = "NAME", add = complete::agents())]
        holder: Option<String>,
    },
    /// Check whether you may write to paths (exit code 5 if not)
    Check {
        /// A file, a folder or a pattern (see `fleet help locks`)
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
    },
    /// Take a lock from its holder, and tell the holder why
    Steal {
        /// A file, a folder or a pattern: every lock it overlaps is taken
        #[arg(value_name = "PATH", add = complete::locks())]
        path: String,
        /// What the locks are needed for, shown in `fleet locks list`
        #[arg(long, allow_hyphen_values = true)]
        reason: String,
    },
}

pub fn run(command: LockCommand, app: &mut App) -> CommandResult {
    match command {
        LockCommand::Acquire {
            paths,
            ttl,
            purpose,
            sortie,
            wait,
        } => {
            let request = AcquireLocks {
                paths: app.all_lockable(&paths)?,
                ttl_ms: ttl,
                purpose: typed::maybe(purpose.as_ref(), |text| typed::title("purpose", text))?,
                sortie,
                sightings: Vec::new(),
            };
            app.will_answer("lock-view")?;
            let (caller, ui) = (app.caller()?, app.ui.clone());
            let mut told = false;
            let mut pause = |span: Duration| {
                if !told {
                    told = true;
                    ui.talk("waiting for the lock …");
                }
                std::thread::sleep(span);
            };
            let wait = Duration::from_millis(wait.unwrap_or(0));
            let granted = acquire(app.fleet()?, &request, &caller, wait, &mut pause);
            let granted = granted.map_err(flightline::Error::into_refusal)?;
            app.ui.written = true;
            said(app, &granted, "Locked")
        }
        LockCommand::Renew { locks, fence, ttl } => {
            let renewed = app.run(&RenewLocks {
                locks: references(&locks, app)?,
                fence,
                ttl_ms: ttl,
            })?;
            said(app, &renewed, "Renewed")
        }
        LockCommand::Release { locks, all, fence } => {
            let released = app.run(&ReleaseLocks {
                locks: references(&locks, app)?,
                all,
                fence,
            })?;
            app.ui.answer(&released, |page| {
                for view in &released {
                    page.line(format_args!("Released {}", view.lock.file));
                }
                if released.is_empty() {
                    page.line("Nothing was held");
                }
            })?;
            Ok(ExitCode::SUCCESS)
        }
        LockCommand::List { holder } => list(holder, app),
        LockCommand::Check { paths } => check(&paths, app),
        LockCommand::Steal { path, reason } => {
            let request = StealLock {
                path: app.lockable(&path)?,
                reason: typed::note("reason", &reason)?,
            };
            let granted = app.run(&request)?;
            said(app, &granted, "Took over")
        }
    }
}

fn references(typed: &[String], app: &App) -> Result<Vec<String>, Refusal> {
    typed.iter().map(|text| reference(text, app)).collect()
}

/// Reads the reference to a lock: a path is relative to the folder it was typed in, an id stays as it is.
pub fn reference(typed: &str, app: &App) -> Result<String, Refusal> {
    match typed.starts_with("lck-") {
        true => Ok(typed.to_owned()),
        false => app.lockable(typed).map(|path| path.to_string()),
    }
}

fn said(app: &App, locks: &[LockView], verb: &str) -> CommandResult {
    app.ui.answer(&locks, |page| {
        for view in locks {
            page.line(format_args!(
                "{verb} {} for {} (fence {}, lapses {} after your last sign of life)",
                view.lock.file,
                view.holder,
                view.lock.fence,
                human_span(view.lock.timeout_ms)
            ));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the locks that were released with the sortie or mission they were taken for.
pub fn say_released(page: &mut Page, locks: &[LockView]) {
    for view in locks {
        page.line(format_args!(
            "  Released {} of {}",
            view.lock.file, view.holder
        ));
    }
}

fn list(holder: Option<String>, app: &mut App) -> CommandResult {
    let locks = app.run(&ListLocks { agent: holder })?;
    let now = app.now()?;
    app.ui.answer(&locks, |page| {
        page.at(now);
        if locks.is_empty() {
            page.line("Nothing is locked.");
            return;
        }
        let rows: Vec<Vec<Cell>> = locks
            .iter()
            .map(|view| {
                vec![
                    Cell::new(&view.lock.file),
                    Cell::new(&view.holder),
                    Cell::new(view.lock.fence),
                    Cell::new(page.time(view.lock.acquired_at)),
                    Cell::new(human_span(view.remaining_ms)),
                    Cell::new(view.lock.purpose.as_deref().unwrap_or("-")),
                ]
            })
            .collect();
        page.table(
            &["PATH", "HOLDER", "FENCE", "TAKEN", "LAPSES IN", "PURPOSE"],
            &rows,
        );
    })?;
    Ok(ExitCode::SUCCESS)
}

fn check(paths: &[String], app: &mut App) -> CommandResult {
    let checks = app.run(&CheckLocks {
        paths: app.all_lockable(paths)?,
    })?;
    app.ui.answer(&checks, |page| {
        let row = |check: &PathCheck| {
            let (mark, about) = match &check.lock {
                None => (Cell::styled("✓ free", GREEN), String::new()),
                Some(view) if check.free => (
                    Cell::styled("✓ yours", GREEN),
                    format!("fence {}", view.lock.fence),
                ),
                Some(view) if view.lock.file == check.path => {
                    (Cell::styled("✗ locked", RED), format!("by {}", view.holder))
                }
                Some(view) => (
                    Cell::styled("✗ locked", RED),
                    format!("by {}, who holds {}", view.holder, view.lock.file),
                ),
            };
            vec![mark, Cell::new(&check.path), Cell::new(about)]
        };
        let rows: Vec<Vec<Cell>> = checks.iter().map(row).collect();
        page.table(&[], &rows);
    })?;
    Ok(if checks.iter().all(|check| check.free) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ATTENTION)
    })
}
