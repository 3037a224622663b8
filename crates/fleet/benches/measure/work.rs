//! An agent that works in this process, on a mission of its own.

use flightline::agent::RegisterAgent;
use flightline::core::sortie::Sortie;
use flightline::core::text::{Name, NoteText};
use flightline::core::{MissionId, Title};
use flightline::mission::CreateMission;
use flightline::sortie::add::NewSortie;
use flightline::sortie::claim::ClaimSortie;
use flightline::sortie::report::UpdateSortie;
use flightline::store::Find;
use flightline::{Caller, Fleet};

/// An agent, and its mission of 10 KB.
pub struct Work {
    pub caller: Caller,
    sorties: Vec<String>,
    turn: usize,
}

impl Work {
    /// An agent at work, and its mission.
    pub fn begin(fleet: &mut Fleet, number: usize) -> (Self, MissionId) {
        let user = Caller {
            user: "bench".to_owned(),
            ..Caller::default()
        };
        let title = |text: String| Title::parse("title", &text).unwrap();
        let description = "Ten of these are a mission of ten kilobytes. ".repeat(22);
        let create = CreateMission {
            title: title(format!("Mission {number}")),
            objective: None,
            phase: None,
            stack_id: None,
            sprint: None,
            dispatch: None,
            states: [].into(),
            sorties: (0..10)
                .map(|n| NewSortie {
                    description: Some(NoteText::parse("description", &description).unwrap()),
                    ..NewSortie::titled(title(format!("Sortie {n}")))
                })
                .collect(),
        };
        let mission = fleet.run(&create, &user).unwrap().mission.id;
        let name = format!("agent-{number}");
        let register = RegisterAgent {
            name: Name::parse("name", &name).unwrap(),
            role: None,
            kind: None,
            session: None,
            process: None,
            feature: None,
        };
        fleet.run(&register, &user).unwrap();
        let caller = Caller {
            agent: Some(name),
            ..user
        };
        let found = fleet
            .store()
            .unwrap()
            .read(|tx| tx.find::<Sortie>(Find::Mission(mission)));
        let sorties: Vec<String> = found.unwrap().iter().map(|it| it.id.to_string()).collect();
        for sortie in &sorties {
            let claim = ClaimSortie {
                sortie: sortie.clone(),
                lock: false,
            };
            fleet.run(&claim, &caller).unwrap();
        }
        let work = Self {
            caller,
            sorties,
            turn: 0,
        };
        (work, mission)
    }

    /// The next report of the agent: about a hundred bytes of news.
    pub fn update(&mut self) -> UpdateSortie {
        self.turn += 1;
        let note = format!("Step {} of many, in about a hundred bytes", self.turn);
        UpdateSortie {
            sortie: self.sorties[self.turn % self.sorties.len()].clone(),
            note: Some(NoteText::parse("note", &note.repeat(2)).unwrap()),
            ..UpdateSortie::default()
        }
    }
}
