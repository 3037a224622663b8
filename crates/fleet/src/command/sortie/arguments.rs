//! The arguments of `fleet sorties`.

use clap::{Args, Subcommand};
use flightline::core::sortie::{Declared, FileChange, SubtaskStatus};
use flightline::core::{Refusal, Title};
use flightline::sortie::edit::{EditSortie, MoveSortie, NewPlace};
use flightline::sortie::report::{FileReport, SubtaskReport, UpdateSortie};

use super::typed;
use crate::app::App;
use crate::complete;

#[derive(Debug, Subcommand)]
pub enum SortieCommand {
    /// Add a sortie to a mission
    Add(AddArgs),
    /// List the sorties of a mission, in order
    List(SortieListArgs),
    /// Show a sortie with its subtasks, files, errors and reviews
    Show(SortieArg),
    /// List the sorties that are ready to be claimed, next one first
    Ready,
    /// Show the dependencies between sorties
    Tree,
    /// Edit a sortie: title, priority, dependencies, files, criteria
    Edit(Box<SortieEditArgs>),
    /// Cancel a sortie; the mission continues without it
    Cancel {
        #[command(flatten)]
        id: SortieArg,
        /// The reason it is cancelled, kept in its history
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
    },
    /// Move a sortie within its mission
    Move(MoveArgs),
    /// Claim a sortie for the acting agent; exactly one agent wins
    Claim {
        /// The sortie: its id, the beginning of it, or its task id
        #[arg(required_unless_present = "next", conflicts_with = "next", add = complete::sorties())]
        id: Option<String>,
        /// Claim the next ready sortie, respecting dependencies and locks
        #[arg(long)]
        next: bool,
        /// Lock its files too; if one cannot be locked, nothing is claimed
        #[arg(long)]
        lock: bool,
        /// Wait until one is ready, up to this time, such as `15m`
        #[arg(long, value_name = "AT MOST", value_parser = typed::span, requires = "next")]
        wait: Option<u64>,
    },
    /// Assign a free sortie to an agent
    Assign {
        #[command(flatten)]
        id: SortieArg,
        /// The agent that gets the sortie
        #[arg(long, value_name = "NAME", add = complete::agents())]
        to: String,
    },
    /// Reassign a sortie from its owner to another agent
    Reassign {
        #[command(flatten)]
        id: SortieArg,
        /// The agent that gets the sortie
        #[arg(long, value_name = "NAME", add = complete::agents())]
        to: String,
        /// The reason its owner changes, kept in its history
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
    },
    /// Start work on an assigned sortie
    Start(SortieArg),
    /// Report progress: notes, subtasks, files, criteria, position
    Update(Box<SortieUpdateArgs>),
    /// Report an error in a sortie, or clear its errors
    Error(ErrorArgs),
    /// Block a sortie that waits for something
    Block {
        #[command(flatten)]
        id: SortieArg,
        /// The reason it is blocked
        #[arg(long, allow_hyphen_values = true)]
        reason: String,
    },
    /// Unblock a sortie
    Unblock(SortieArg),
    /// Resume a sortie after an interruption: show open work and position
    Resume {
        #[command(flatten)]
        id: SortieArg,
        /// List the open subtasks one by one, and report if there are none
        #[arg(long)]
        subtasks: bool,
    },
    /// Complete a sortie
    Complete {
        #[command(flatten)]
        id: SortieArg,
        /// The output, as JSON
        #[arg(long, value_name = "JSON")]
        output: Option<String>,
        #[command(flatten)]
        end: SortieEndArgs,
    },
    /// Give up a sortie: mark it as failed
    Fail {
        #[command(flatten)]
        id: SortieArg,
        /// The reason it is given up, kept in its history
        #[arg(long, allow_hyphen_values = true)]
        reason: String,
        #[command(flatten)]
        end: SortieEndArgs,
    },
    /// Release a sortie, so that any agent can claim it
    Release {
        #[command(flatten)]
        id: SortieArg,
        /// The reason it is released, kept in its history
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
        #[command(flatten)]
        end: SortieEndArgs,
    },
    /// Record a review, or ask for one (without a score)
    Review {
        #[command(flatten)]
        id: SortieArg,
        /// The reviewer (default: the acting agent)
        #[arg(long, value_name = "NAME")]
        reviewer: Option<String>,
        /// The score, on the reviewers' own scale; without one a review is asked for
        #[arg(long, allow_negative_numbers = true)]
        score: Option<i64>,
        /// The reviewer's comment on the work
        #[arg(long, allow_hyphen_values = true)]
        note: Option<String>,
    },
    /// Approve a completed sortie
    Approve {
        #[command(flatten)]
        id: SortieArg,
        /// The reason it is approved, kept in its history
        #[arg(long, allow_hyphen_values = true)]
        reason: Option<String>,
    },
    /// Reject a completed sortie, and send it back to its owner
    Reject {
        #[command(flatten)]
        id: SortieArg,
        /// The reason it is rejected: the work its owner has to do again
        #[arg(long, allow_hyphen_values = true)]
        reason: String,
    },
}

#[derive(Debug, Args)]
pub struct SortieArg {
    /// The sortie: its id, the beginning of it, or its task id
    #[arg(add = complete::sorties())]
    pub id: String,
}

#[derive(Debug, Default, Args)]
pub struct SortieEndArgs {
    /// Keep the locks of the sortie (default: release them)
    #[arg(long)]
    pub keep: bool,
    /// Take a checkpoint in the same commit
    #[arg(long)]
    pub checkpoint: bool,
}

#[derive(Debug, Args)]
pub struct AddArgs {
    /// The title: the task in one line
    pub title: String,
    /// The description (`-` reads stdin)
    #[arg(long, allow_hyphen_values = true)]
    pub description: Option<String>,
    /// The id of the task in other tools, such as T060
    #[arg(long)]
    pub task_id: Option<String>,
    /// A sortie that must be completed first (repeatable)
    #[arg(long, value_name = "ID", add = complete::sorties())]
    pub after: Vec<String>,
    /// A file the sortie will touch (repeatable)
    #[arg(long = "file", value_name = "PATH")]
    pub files: Vec<String>,
    /// An acceptance criterion, as a name or in free text (repeatable)
    #[arg(long = "criterion", value_name = "TEXT")]
    pub criteria: Vec<String>,
    /// The priority; higher goes first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i32,
    /// The estimated time, such as `2h`
    #[arg(long, value_parser = typed::span)]
    pub estimate: Option<u64>,
    /// How to resume the sortie after an interruption
    #[arg(long, allow_hyphen_values = true)]
    pub resume_instructions: Option<String>,
    /// The input, as JSON
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
}

#[derive(Debug, Args)]
pub struct SortieEditArgs {
    #[command(flatten)]
    id: SortieArg,
    /// The title: the task in one line
    #[arg(long, allow_hyphen_values = true)]
    title: Option<String>,
    /// The description (`-` reads stdin)
    #[arg(long, allow_hyphen_values = true)]
    description: Option<String>,
    /// The id of the task in other tools, such as T060
    #[arg(long)]
    task_id: Option<String>,
    /// The priority; higher goes first
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i32>,
    /// The estimated time, such as `2h`
    #[arg(long, value_parser = typed::span)]
    estimate: Option<u64>,
    /// Add a sortie that must be completed first (repeatable)
    #[arg(long, value_name = "ID", add = complete::sorties())]
    after: Vec<String>,
    /// Remove the dependency on this sortie (repeatable)
    #[arg(long, value_name = "ID", add = complete::sorties())]
    not_after: Vec<String>,
    /// Add a file that the sortie will touch (repeatable)
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,
    /// Remove a file that the sortie will not touch (repeatable)
    #[arg(long = "no-file", value_name = "PATH")]
    no_files: Vec<String>,
    /// Add an acceptance criterion, as a name or in free text
    #[arg(long = "criterion", value_name = "TEXT")]
    criteria: Vec<String>,
    /// Remove an acceptance criterion
    #[arg(long = "no-criterion", value_name = "TEXT")]
    no_criteria: Vec<String>,
    /// How to resume the sortie after an interruption
    #[arg(long, allow_hyphen_values = true)]
    resume_instructions: Option<String>,
}

impl SortieEditArgs {
    pub fn request(&self, app: &App) -> Result<EditSortie, Refusal> {
        let request = EditSortie {
            sortie: self.id.id.clone(),
            title: typed::maybe(self.title.as_ref(), |text| typed::title("title", text))?,
            description: typed::maybe(self.description.as_ref(), |text| {
                typed::note("description", text)
            })?,
            task_id: typed::maybe(self.task_id.as_ref(), |text| typed::name("task id", text))?,
            priority: self.priority,
            estimate_ms: self.estimate,
            add_dependencies: self.after.clone(),
            remove_dependencies: self.not_after.clone(),
            add_files: app.paths(&self.files)?,
            remove_files: app.paths(&self.no_files)?,
            add_criteria: typed::titles("criterion", &self.criteria)?,
            remove_criteria: typed::titles("criterion", &self.no_criteria)?,
            resume_instructions: typed::maybe(self.resume_instructions.as_ref(), |text| {
                typed::note("resume instructions", text)
            })?,
        };
        Ok(request)
    }
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("place").required(true)))]
pub struct MoveArgs {
    #[command(flatten)]
    pub id: SortieArg,
    /// Move it just before this sortie
    #[arg(long, value_name = "ID", group = "place", add = complete::sorties())]
    before: Option<String>,
    /// Move it just after this sortie
    #[arg(long, value_name = "ID", group = "place", add = complete::sorties())]
    after: Option<String>,
    /// Move it to the start
    #[arg(long, group = "place")]
    first: bool,
    /// Move it to the end
    #[arg(long, group = "place")]
    last: bool,
}

impl MoveArgs {
    pub fn request(&self) -> MoveSortie {
        let to = match (&self.before, &self.after, self.first) {
            (Some(sortie), _, _) => NewPlace::Before {
                sortie: sortie.clone(),
            },
            (None, Some(sortie), _) => NewPlace::After {
                sortie: sortie.clone(),
            },
            (None, None, true) => NewPlace::First,
            (None, None, false) => NewPlace::Last,
        };
        MoveSortie {
            sortie: self.id.id.clone(),
            to,
        }
    }
}

#[derive(Debug, Args)]
pub struct SortieListArgs {
    /// Filter by status, such as `in_progress`
    #[arg(long)]
    pub status: Option<String>,
    /// Only sorties of this agent
    #[arg(long, value_name = "NAME", add = complete::agents())]
    pub owner: Option<String>,
    /// Maximum number of sorties
    #[arg(long, default_value_t = 1000)]
    pub limit: u64,
}

#[derive(Debug, Args)]
pub struct ErrorArgs {
    #[command(flatten)]
    pub id: SortieArg,
    /// The type of error: `api_error`, `dependency_missing` …
    #[arg(long = "type", value_name = "TYPE", default_value = "error")]
    pub kind: String,
    /// The status code, when it came from an API
    #[arg(long)]
    pub status: Option<u16>,
    /// What happened (`-` reads stdin)
    #[arg(long, allow_hyphen_values = true)]
    pub message: Option<String>,
    /// Work cannot continue: the sortie becomes blocked
    #[arg(long)]
    pub blocking: bool,
    /// Clear the errors of the sortie
    #[arg(long, conflicts_with_all = ["message", "blocking", "status"])]
    pub clear: bool,
}

#[derive(Debug, Args)]
pub struct SortieUpdateArgs {
    #[command(flatten)]
    id: SortieArg,
    /// What happened (`-` reads stdin)
    #[arg(long, allow_hyphen_values = true)]
    note: Option<String>,
    /// A subtask and its status: `NAME=pending|in_progress|complete|failed[:OUTPUT]`; NAME may be free text
    #[arg(long = "subtask", value_name = "NAME=STATUS[:OUTPUT]")]
    subtasks: Vec<String>,
    /// Completed and total subtasks, if you do not list them, such as `19/29`
    #[arg(long, value_name = "DONE/ALL")]
    done: Option<String>,
    /// A file you created
    #[arg(long, value_name = "PATH")]
    created: Vec<String>,
    /// A file you modified
    #[arg(long, value_name = "PATH")]
    modified: Vec<String>,
    /// A file you deleted
    #[arg(long, value_name = "PATH")]
    deleted: Vec<String>,
    /// A criterion that is met
    #[arg(long, value_name = "NAME")]
    met: Vec<String>,
    /// A criterion that is not met
    #[arg(long, value_name = "NAME")]
    unmet: Vec<String>,
    /// The step done last
    #[arg(long, value_name = "WHAT", allow_hyphen_values = true)]
    last: Option<String>,
    /// The step to do next
    #[arg(long, value_name = "WHAT", allow_hyphen_values = true)]
    next: Option<String>,
    /// Number of changed lines in the modified files
    #[arg(long, requires = "modified")]
    lines: Option<u64>,
    /// Further notes on the current position
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    cursor_notes: Option<String>,
    /// Say whether the sortie can be resumed
    #[arg(long)]
    resumable: Option<bool>,
    /// How to resume the sortie
    #[arg(long, allow_hyphen_values = true)]
    resume_instructions: Option<String>,
    /// Tokens read since the last update
    #[arg(long, default_value_t = 0)]
    tokens_in: u64,
    /// Tokens written since the last update
    #[arg(long, default_value_t = 0)]
    tokens_out: u64,
    /// Take a checkpoint in the same commit
    #[arg(long)]
    checkpoint: bool,
}

impl SortieUpdateArgs {
    pub fn request(&self, app: &App) -> Result<UpdateSortie, Refusal> {
        let mut files = Vec::new();
        for (paths, change) in [
            (&self.created, FileChange::Created),
            (&self.modified, FileChange::Modified),
            (&self.deleted, FileChange::Deleted),
        ] {
            files.extend(
                app.paths(paths)?
                    .into_iter()
                    .map(|path| FileReport { path, change }),
            );
        }
        let criteria = [(&self.met, true), (&self.unmet, false)];
        let criteria = criteria
            .into_iter()
            .flat_map(|(names, met)| names.iter().map(move |name| (name, met)));
        let modified = app.paths(&self.modified)?.into_iter();
        Ok(UpdateSortie {
            changed_lines: self
                .lines
                .map(|lines| modified.map(|path| (path, lines)).collect())
                .unwrap_or_default(),
            sortie: self.id.id.clone(),
            note: typed::maybe(self.note.as_ref(), |text| typed::note("note", text))?,
            subtasks: self
                .subtasks
                .iter()
                .map(|text| subtask(text))
                .collect::<Result<_, _>>()?,
            declared: typed::maybe(self.done.as_ref(), declared)?,
            files,
            criteria: criteria
                .map(|(text, met)| Ok((typed::labelled("criterion", text)?.0, met)))
                .collect::<Result<_, Refusal>>()?,
            last_processed: typed::maybe(self.last.as_ref(), |text| typed::title("last", text))?,
            next_to_process: typed::maybe(self.next.as_ref(), |text| typed::title("next", text))?,
            cursor_notes: typed::maybe(self.cursor_notes.as_ref(), |text| {
                typed::note("cursor notes", text)
            })?,
            resumable: self.resumable,
            resume_instructions: typed::maybe(self.resume_instructions.as_ref(), |text| {
                typed::note("resume instructions", text)
            })?,
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            checkpoint: self.checkpoint,
        })
    }
}

fn subtask(text: &str) -> Result<SubtaskReport, Refusal> {
    let wrong = || {
        Refusal::invalid(format!("`{text}` does not give the status of a subtask")).hint(
            "write `--subtask post-01=complete`, or `--subtask post-01=complete:docs/post-01.md`",
        )
    };
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (status, output) = rest
        .split_once(':')
        .map_or((rest, None), |(status, output)| (status, Some(output)));
    let status = match status.replace('-', "_").as_str() {
        "pending" => SubtaskStatus::Pending,
        "in_progress" => SubtaskStatus::InProgress,
        "complete" | "completed" | "done" => SubtaskStatus::Complete,
        "failed" => SubtaskStatus::Failed,
        _ => return Err(wrong()),
    };
    let output = output
        .map(|output| Title::parse("output", output))
        .transpose()?;
    let (name, title) = typed::labelled("subtask", name.trim())?;
    Ok(SubtaskReport {
        name,
        title,
        status,
        output,
    })
}

fn declared(text: &str) -> Result<Declared, Refusal> {
    let counts = text
        .split_once('/')
        .and_then(|(done, all)| Some((done.parse().ok()?, all.parse().ok()?)));
    match counts {
        Some((completed, total)) if completed <= total => Ok(Declared {
            total,
            completed,
            failed: 0,
        }),
        _ => Err(Refusal::invalid(format!("`{text}` is not a count")).hint("write `--done 19/29`")),
    }
}
