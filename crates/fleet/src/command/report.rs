//! `fleet report`: compares the time that sorties took with their estimates, and prints the table of `STATUS.md`.

use std::process::ExitCode;

use clap::Args;
use flightline::core::Kind;
use flightline::core::time::human_span;
use flightline::report::{Report, ReportLine, ShowReport, Totals};
use flightline::task::ShowTaskTable;

use super::CommandResult;
use crate::app::{App, DisplayIds};
use crate::ui::{BOLD, Cell, Page, state};

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Print the table of tasks that `STATUS.md` holds, as Markdown (of all open missions, or of `--mission`)
    #[arg(long)]
    status: bool,
}

pub fn run(args: &ReportArgs, app: &mut App) -> CommandResult {
    if args.status {
        let table = app.run(&ShowTaskTable { mission: None })?;
        app.ui
            .answer(&table, |page| page.block(0, table.text.trim_end()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = app.run(&ShowReport { mission: None })?;
    let short = app.short(&[Kind::Mission, Kind::Sortie], &report)?;
    app.ui.answer(&report, |page| say(page, &report, &short))?;
    Ok(ExitCode::SUCCESS)
}

fn say(page: &mut Page, report: &Report, short: &DisplayIds) {
    page.line(format_args!(
        "{}   {}   {}",
        Cell::styled(&report.title, BOLD),
        short.id(report.mission_id),
        state(report.status.as_str())
    ));
    if report.sorties.is_empty() {
        page.line("No sortie yet.");
        return;
    }
    let rows: Vec<Vec<Cell>> = report.sorties.iter().map(|line| row(line, short)).collect();
    page.table(
        &[
            "SORTIE", "TASK", "STATUS", "ESTIMATE", "ACTUAL", "RATIO", "TRIES", "TOKENS",
            "REVIEWS", "TITLE",
        ],
        &rows,
    );
    for line in report
        .sorties
        .iter()
        .filter(|line| !line.unmet_criteria.is_empty())
    {
        let unmet: Vec<&str> = line
            .unmet_criteria
            .iter()
            .map(|name| name.as_str())
            .collect();
        page.line(format_args!(
            "Not met of {}: {}",
            short.id(line.sortie_id),
            unmet.join(", ")
        ));
    }
    say_totals(page, &report.totals);
}

fn row(line: &ReportLine, short: &DisplayIds) -> Vec<Cell> {
    let unknown = || "-".to_owned();
    let reviews: Vec<String> = line
        .reviews
        .iter()
        .map(|review| match review.score {
            Some(score) => format!("{} {score}", review.reviewer),
            None => format!("{} asked", review.reviewer),
        })
        .collect();
    vec![
        Cell::new(short.id(line.sortie_id)),
        Cell::new(
            line.task_id
                .as_ref()
                .map_or_else(unknown, ToString::to_string),
        ),
        state(line.status.as_str()),
        Cell::new(line.estimate_ms.map_or_else(unknown, human_span)),
        Cell::new(line.actual_ms.map_or_else(unknown, |actual| {
            let so_far = if line.finished { "" } else { " so far" };
            format!("{}{so_far}", human_span(actual))
        })),
        Cell::new(
            line.ratio
                .map_or_else(unknown, |ratio| format!("{ratio:.2}")),
        ),
        Cell::new(line.attempts),
        Cell::new(line.tokens.map_or_else(unknown, |tokens| {
            format!("{} in, {} out", tokens.input, tokens.output)
        })),
        Cell::new(if reviews.is_empty() {
            unknown()
        } else {
            reviews.join(", ")
        }),
        Cell::new(&line.title),
    ]
}

/// Prints the totals, and the number of sorties for which they are known.
fn say_totals(page: &mut Page, totals: &Totals) {
    let all = totals.sorties;
    let mut rows = vec![vec![
        Cell::dim("Completed"),
        Cell::new(format_args!(
            "{} of {all}, in {}",
            totals.completed,
            counted(totals.attempts, "attempt")
        )),
    ]];
    let mut fact = |name: &str, known: u64, figure: String| {
        let figure = match known {
            0 => "not known".to_owned(),
            known => format!("{figure} ({known} of {all} sorties)"),
        };
        rows.push(vec![Cell::dim(name), Cell::new(figure)]);
    };
    fact(
        "Estimated",
        totals.estimated,
        human_span(totals.estimate_ms),
    );
    fact("Took", totals.measured, human_span(totals.actual_ms));
    let ratio = totals
        .ratio
        .map_or_else(String::new, |ratio| format!("{ratio:.2} of the estimate"));
    fact("Ratio", totals.compared, ratio);
    let tokens = totals.tokens;
    let tokens = format!("{} in, {} out", tokens.input, tokens.output);
    fact("Tokens", totals.tokens_reported, tokens);
    if totals.unmet_criteria > 0 {
        let unmet = counted(totals.unmet_criteria, "criterion").replace("criterions", "criteria");
        rows.push(vec![Cell::dim("Not met"), Cell::new(unmet)]);
    }
    page.table(&[], &rows);
}

fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
