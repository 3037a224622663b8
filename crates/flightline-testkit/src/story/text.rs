//! Renders the fleet, and the outcome of a recovery, as text: a test compares what it reads.

use flightline::core::AgentId;
use flightline::core::agent::Agent;
use flightline::core::lock::Lock;
use flightline::core::message::{Delivery, Message};
use flightline::core::mission::{Mission, Progress};
use flightline::core::note::Note;
use flightline::core::sortie::{Sortie, SortieStatus};
use flightline::recovery::resume::Resumed;

use super::Story;

impl Story<'_> {
    /// The fleet as text, one line each: missions with their sorties and notes, agents that are not in their first
    /// session any more, locks, and mail, in the order they came to be. Sorties go by their titles.
    pub fn as_text(&self) -> String {
        let (agents, sorties, notes) = (
            self.all::<Agent>(),
            self.all::<Sortie>(),
            self.all::<Note>(),
        );
        let name = |id: Option<AgentId>| {
            let agent = agents.iter().find(|agent| Some(agent.id) == id);
            agent.map_or("-", |agent| agent.name.as_str())
        };
        let mut lines = Vec::new();
        for mission in self.all::<Mission>() {
            let of_it = sorties.iter().filter(|one| one.mission_id == mission.id);
            let is_completed = |one: &&Sortie| one.status == SortieStatus::Completed;
            let progress = Progress {
                completed: of_it.clone().filter(is_completed).count() as u64,
                total: of_it.clone().count() as u64,
            };
            let mut line = format!(
                "mission \"{}\" {} {}%",
                mission.title,
                mission.status.as_str(),
                progress.percent()
            );
            if mission.dispatch.is_some() {
                line += &format!(" led by {}", name(mission.dispatch));
            }
            lines.push(line);
            for sortie in of_it {
                let (status, owner) = (sortie.status.as_str(), name(sortie.assigned_to));
                let mut line = format!("  sortie \"{}\" {status} {owner}", sortie.title);
                if sortie.attempts > 1 {
                    line += &format!(" attempt {}", sortie.attempts);
                }
                lines.push(line);
            }
            for note in notes.iter().filter(|one| one.mission_id == mission.id) {
                let (kind, author) = (note.kind.as_str(), &note.author);
                lines.push(format!("  {kind} {author} \"{}\"", note.text));
            }
        }
        for agent in &agents {
            let retired = agent.retired_at.map_or("", |_| " retired");
            if agent.epoch > 1 || !retired.is_empty() {
                lines.push(format!(
                    "agent {} epoch {}{retired}",
                    agent.name, agent.epoch
                ));
            }
        }
        for lock in self.all::<Lock>() {
            lines.push(format!("lock {} {}", lock.file, name(Some(lock.held_by))));
        }
        let deliveries = self.all::<Delivery>();
        for message in self.all::<Message>() {
            lines.push(format!("mail {} \"{}\"", message.from, message.subject));
            for way in deliveries.iter().filter(|one| one.message_id == message.id) {
                lines.push(format!(
                    "  to {} {}",
                    name(Some(way.to)),
                    way.state.as_str()
                ));
            }
        }
        self.by_titles(&one_text(&lines))
    }

    /// The outcome of a recovery as text: how far the mission is, and a line for everything that moved.
    pub fn told(&self, done: &Resumed) -> String {
        let how = match done.rewound {
            true => "gone back",
            false => "carried on",
        };
        let (completed, total, percent) = (done.completed, done.total, done.progress_percent);
        let mut lines = vec![format!("{how}: {completed} of {total}, {percent}%")];
        let restored = &done.restored;
        for (count, what) in [
            (restored.sorties, "sorties changed"),
            (restored.locks, "locks granted anew"),
            (restored.messages, "messages come again"),
        ] {
            if count > 0 {
                lines.push(format!("{what}: {count}"));
            }
        }
        let mut lost: Vec<String> = done.lost.iter().map(|one| self.by_titles(one)).collect();
        lost.sort();
        for (what, all) in [
            ("free", &done.requeued_sorties),
            ("unlocked", &done.released_locks),
            ("lost", &lost),
            ("blocker", &done.recovery_context.blockers),
            ("warning", &done.warnings),
        ] {
            lines.extend(all.iter().map(|one| format!("{what}: {one}")));
        }
        self.by_titles(&one_text(&lines))
    }

    /// A text in which sorties go by their titles, and other ids by their kinds.
    fn by_titles(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for sortie in self.all::<Sortie>() {
            let id = sortie.id.to_string();
            text = text.replace(&id, &sortie.title);
            text = text.replace(&id[..12], &sortie.title);
        }
        for kind in ["srt-", "chk-"] {
            let mut parts = text.split(kind);
            let first = parts.next().unwrap_or_default().to_owned();
            let is_of_id = |c: char| c.is_ascii_hexdigit() || ['-', '*'].contains(&c);
            text = parts.fold(first, |text, part| {
                text + kind + "*" + part.trim_start_matches(is_of_id)
            });
        }
        text
    }
}

fn one_text(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}
