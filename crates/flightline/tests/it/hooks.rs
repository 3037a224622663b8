//! Coding agents' sessions, as their hooks tell of them, on both engines: each is an agent, its work is saved, and its briefing reaches it.

use flightline::context::AcknowledgeBriefing;
use flightline::core::agent::Process;
use flightline::core::setting::Briefing;
use flightline::hook::{Hooked, PlannedStatus, PlannedTask, SessionEvent, SubagentRef, TellHook};
use flightline_testkit::prelude::*;

/// A session of a client, in a process.
struct Session<'s, 'w> {
    story: &'s Story<'w>,
    client: &'static str,
    id: &'static str,
    pid: u32,
}

impl Session<'_, '_> {
    fn request(&self, event: SessionEvent) -> TellHook {
        TellHook {
            client: name(self.client),
            session: title(self.id),
            subagent: None,
            process: Some(self.process()),
            tokens: None,
            room: Some(9_000),
            event,
            cleared: false,
            sightings: Vec::new(),
            looks_later: false,
            tree: None,
        }
    }

    fn process(&self) -> Process {
        process(self.pid)
    }

    fn tell(&self, event: SessionEvent) -> Hooked {
        self.story.run("", &self.request(event)).unwrap()
    }

    fn prompt(&self, text: &str) -> Hooked {
        self.tell(SessionEvent::Prompted {
            text: Some(title(text)),
        })
    }

    fn edit(&self, file: &str) -> Hooked {
        self.tell(SessionEvent::Editing {
            paths: vec![path(file)],
        })
    }

    fn stop(&self, said: &str) -> Hooked {
        self.tell(SessionEvent::Stopped {
            said: Some(title(said)),
        })
    }
}

fn claude<'s, 'w>(story: &'s Story<'w>, id: &'static str, pid: u32) -> Session<'s, 'w> {
    Session {
        story,
        client: "claude",
        id,
        pid,
    }
}

/// The agents, each with the sorties it holds.
fn crew(story: &Story<'_>) -> Vec<(String, Vec<String>)> {
    let sorties = story.all::<Sortie>();
    let of = |agent: &Agent| {
        let held = sorties
            .iter()
            .filter(|it| it.status.is_held() && it.assigned_to == Some(agent.id));
        held.map(|it| it.title.to_string()).collect()
    };
    let agents = story.all::<Agent>();
    let present = agents
        .iter()
        .filter(|agent| agent.retired_at.is_none() && agent.epoch > 0);
    present
        .map(|agent| (agent.name.to_string(), of(agent)))
        .collect()
}

fn task(text: &str, status: PlannedStatus) -> PlannedTask {
    PlannedTask {
        title: title(text),
        status,
    }
}

fn acknowledge(story: &Story<'_>, agent: &str) {
    let last = story.all::<Briefing>().pop().unwrap();
    story
        .run(agent, &AcknowledgeBriefing { nonce: last.nonce })
        .unwrap();
}

both_engines! {
    fn a_session_is_an_agent_and_its_first_prompt_a_mission(world: &World) {
        let story = Story::new(world);
        let session = claude(&story, "one", 7);
        let begun = session.tell(SessionEvent::Started);
        assert!(begun.begun && begun.context.is_none() && begun.mission_id.is_none(), "{begun:?}");
        session.prompt("Add login");
        assert_eq!(crew(&story), [("claude".to_owned(), vec!["Add login".to_owned()])]);
        assert_eq!(story.all::<Mission>()[0].title.as_str(), "Add login");
        // Another prompt is the same work.
        session.prompt("and now the tests");
        assert_eq!(story.all::<Mission>().len(), 1);
    }

    fn two_sessions_are_two_agents_of_one_fleet(world: &World) {
        let story = Story::new(world);
        let (one, two) = (claude(&story, "one", 7), claude(&story, "two", 8));
        one.prompt("Add login");
        two.prompt("Write docs");
        let held = |title: &str| vec![title.to_owned()];
        assert_eq!(crew(&story), [("claude".to_owned(), held("Add login")), ("claude-2".to_owned(), held("Write docs"))]);
        assert_eq!(one.edit("src/a.rs").deny, None);
        let denied = two.edit("src/a.rs").deny.unwrap();
        assert!(denied.contains("src/a.rs") && denied.contains("claude"), "{denied}");
        assert_eq!(one.edit("src/a.rs").deny, None, "its own");
        // The turn ends, and the file is free.
        one.stop("The login works.");
        assert_eq!(two.edit("src/a.rs").deny, None);
    }

    fn people_who_made_a_mission_find_sessions_in_it(world: &World) {
        let story = Story::new(world);
        let mission = story.mission("Add login", &["Model", "Docs"]).mission.id;
        let session = Session { client: "codex", ..claude(&story, "one", 7) };
        let begun = session.tell(SessionEvent::Started);
        assert_eq!(begun.mission_id, Some(mission));
        assert!(begun.context.unwrap().contains("Add login"));
        session.prompt("go on");
        assert_eq!(story.all::<Mission>().len(), 1);
    }

    fn a_task_list_becomes_sorties(world: &World) {
        let story = Story::new(world);
        let session = claude(&story, "one", 7);
        session.prompt("Add login");
        let plan = |first, second, third| session.tell(SessionEvent::Planned {
            tasks: vec![task("Model", first), task("Endpoint", second), task("Docs", third)],
        });
        let states = || -> Vec<(String, SortieStatus)> {
            story.all::<Sortie>().into_iter().map(|it| (it.title.to_string(), it.status)).collect()
        };
        plan(PlannedStatus::InProgress, PlannedStatus::Pending, PlannedStatus::Pending);
        let expected = [("Model", SortieStatus::InProgress), ("Endpoint", SortieStatus::Pending), ("Docs", SortieStatus::Pending)];
        assert_eq!(states(), expected.map(|(title, status)| (title.to_owned(), status)));
        plan(PlannedStatus::Completed, PlannedStatus::InProgress, PlannedStatus::Pending);
        let expected = [("Model", SortieStatus::Completed), ("Endpoint", SortieStatus::InProgress), ("Docs", SortieStatus::Pending)];
        assert_eq!(states(), expected.map(|(title, status)| (title.to_owned(), status)));
        // The same list again changes nothing.
        let rev = story.rev();
        plan(PlannedStatus::Completed, PlannedStatus::InProgress, PlannedStatus::Pending);
        assert_eq!(story.rev(), rev);
    }

    fn after_a_compaction_the_briefing_comes_once_and_again_until_it_is_acknowledged(world: &World) {
        let story = Story::new(world);
        let session = claude(&story, "one", 7);
        session.prompt("Add login");
        session.tell(SessionEvent::Compacting);
        assert!(story.reasons().contains(&Reason::PreCompact));
        session.tell(SessionEvent::Worked { paths: vec![path("src/a.rs")], failed: None });
        let context = session.tell(SessionEvent::Compacted).context.unwrap();
        assert!(context.contains("src/a.rs"), "{context}");
        assert!(context.starts_with("## Recovery Context") && context.contains("Add login"), "{context}");
        // A second hook tells of the same event.
        assert_eq!(session.tell(SessionEvent::Compacted).context, None);
        assert_eq!(story.agent("claude").context, 1);
        story.pass_minutes(1);
        let again = session.prompt("go on").context.unwrap();
        assert!(again.starts_with("## Recovery Context"), "{again}");
        story.pass_minutes(1);
        let line = session.prompt("go on").context.unwrap();
        assert!(line.lines().count() < 4, "{line}");
        acknowledge(&story, "claude");
        story.pass_minutes(1);
        assert_eq!(session.prompt("go on").context, None);
    }

    fn who_comes_after_one_that_died_goes_on_in_its_place(world: &World) {
        let story = Story::new(world);
        let one = claude(&story, "one", 7);
        one.prompt("Add login");
        one.stop("The model is done, the endpoint is next.");
        let agent = story.agent("claude");
        let gone = Sighting::new(agent.id, one.process(), false);
        let two = claude(&story, "two", 8);
        let begun = story.run("", &TellHook { sightings: vec![gone], ..two.request(SessionEvent::Started) }).unwrap();
        let context = begun.context.unwrap();
        assert!(context.contains("Add login") && context.contains("the endpoint is next"), "{context}");
        assert_eq!(crew(&story), [("claude".to_owned(), vec!["Add login".to_owned()])]);
        assert_eq!(story.agent("claude").epoch, 2);
        // The first one wakes after all: it is another agent now, and takes nothing back.
        let woken = one.prompt("hello?").agent.unwrap();
        assert_eq!(woken.name.as_str(), "claude-2");
    }

    fn processes_are_looked_at_only_where_that_decides(world: &World) {
        let story = Story::new(world);
        let (one, two) = (claude(&story, "one", 7), claude(&story, "two", 8));
        let later = |session: &Session<'_, '_>, event: SessionEvent| {
            let rev = story.rev();
            let request = TellHook { looks_later: true, ..session.request(event) };
            let done = story.run("", &request).unwrap();
            assert!(!done.look_first || story.rev() == rev, "it has done something");
            done
        };
        let edit = |file: &str| SessionEvent::Editing { paths: vec![path(file)] };
        // Who is gone decides which seat is free.
        assert!(later(&one, SessionEvent::Prompted { text: Some(title("Add login")) }).look_first);
        assert!(later(&one, edit("src/a.rs")).look_first);
        one.prompt("Add login");
        two.prompt("Add logout");
        // A file that nobody else has locked is locked at once, and stays so.
        for _ in 0..2 {
            let done = later(&one, edit("src/a.rs"));
            assert_eq!((done.look_first, done.deny), (false, None));
        }
        // A lock that is in the way counts only as long as its holder runs.
        assert!(later(&two, edit("src/a.rs")).look_first);
        assert!(two.edit("src/a.rs").deny.is_some());
        let gone = Sighting::new(story.agent("claude").id, one.process(), false);
        let looked = TellHook { sightings: vec![gone], ..two.request(edit("src/a.rs")) };
        let done = story.run("", &looked).unwrap();
        assert_eq!((done.look_first, done.deny), (false, None));
        assert!(!later(&two, SessionEvent::Worked { paths: Vec::new(), failed: None }).look_first);
        // Nobody knows a session that only says good-bye.
        assert!(!later(&claude(&story, "three", 9), SessionEvent::Ended).look_first);
    }

    fn a_session_is_found_wherever_it_sits(world: &World) {
        let story = Story::new(world);
        let names = ["one", "two", "three", "four", "five", "six"];
        for (pid, id) in (7..).zip(names) {
            claude(&story, id, pid).prompt("Add login");
        }
        for (number, (pid, id)) in (1..).zip((7..).zip(names)) {
            let seat = match number { 1 => "claude".to_owned(), number => format!("claude-{number}") };
            let agent = claude(&story, id, pid).prompt("go on").agent.unwrap();
            assert_eq!(agent.name.as_str(), seat);
        }
        // Also when somebody has another name.
        let own = RegisterAgent {
            kind: Some(name("claude")), session: Some(title("seven")), process: Some(process(20)), ..registration("ada")
        };
        story.run("", &own).unwrap();
        let agent = claude(&story, "seven", 20).prompt("go on").agent.unwrap();
        assert_eq!(agent.name.as_str(), "ada");
    }

    fn a_context_that_was_briefed_owes_nothing_however_many_were_before(world: &World) {
        let story = Story::new(world);
        let session = claude(&story, "one", 7);
        session.prompt("Add login");
        let worked = || SessionEvent::Worked { paths: Vec::new(), failed: None };
        for round in 0..12 {
            story.pass_minutes(1);
            assert!(session.tell(SessionEvent::Compacted).context.is_some(), "{round}");
            // Some of them are read, and some are not.
            if round % 3 > 0 {
                acknowledge(&story, "claude");
            }
            story.pass_minutes(1);
            let rev = story.rev();
            assert_eq!(session.tell(worked()).context, None, "{round}");
            assert_eq!(story.rev(), rev, "{round}: it is a sign of life, and no more");
        }
    }

    fn before_something_destructive_there_is_a_checkpoint(world: &World) {
        let story = Story::new(world);
        let session = claude(&story, "one", 7);
        session.prompt("Add login");
        let push = SessionEvent::Destroying { operation: name("git_push"), target: Some(title("origin main")) };
        assert!(session.tell(push).checkpoint_id.is_some());
        session.stop("pushed");
        let remove = SessionEvent::Destroying { operation: name("rm_recursive"), target: None };
        assert!(session.tell(remove).checkpoint_id.is_some());
        assert!(story.reasons().contains(&Reason::BeforeDestructive));
    }

    fn an_end_saves_the_work_and_frees_the_seat(world: &World) {
        let story = Story::new(world);
        let one = claude(&story, "one", 7);
        one.prompt("Add login");
        one.edit("src/a.rs");
        assert!(one.tell(SessionEvent::Ended).checkpoint_id.is_some());
        assert!(story.agent("claude").session_ended_at.is_some());
        let two = claude(&story, "two", 8);
        let context = two.tell(SessionEvent::Started).context.unwrap();
        assert!(context.contains("Add login"), "{context}");
        assert_eq!(crew(&story).len(), 1);
        // A good-bye of a session that nobody knows makes no agent.
        assert!(claude(&story, "three", 9).tell(SessionEvent::Ended).agent.is_none());
        assert_eq!(crew(&story).len(), 1);
    }

    fn a_cleared_session_is_the_same_agent_anew(world: &World) {
        let story = Story::new(world);
        claude(&story, "one", 7).prompt("Add login");
        let two = claude(&story, "two", 7);
        let cleared = TellHook { cleared: true, ..two.request(SessionEvent::Started) };
        let cleared = story.run("", &cleared).unwrap();
        assert_eq!(cleared.agent.unwrap().name.as_str(), "claude");
        assert!(cleared.context.unwrap().contains("Add login"));
        // A second session in the same process is another agent.
        let three = claude(&story, "three", 7).tell(SessionEvent::Started);
        assert_eq!(three.agent.unwrap().name.as_str(), "claude-2");
    }

    fn a_tool_that_was_used_is_a_sign_of_life_and_no_event(world: &World) {
        let story = Story::new(world);
        let session = claude(&story, "one", 7);
        session.prompt("Add login");
        let worked = |failed| session.tell(SessionEvent::Worked { paths: vec![path("src/a.rs")], failed });
        worked(None);
        assert_eq!(story.agent("claude").files_modified, [path("src/a.rs")]);
        let rev = story.rev();
        worked(None);
        assert_eq!(story.rev(), rev);
        let why = || Some(note("Bash: exit code 1"));
        worked(why());
        worked(why());
        assert_eq!(story.all::<flightline::core::sortie::SortieError>().len(), 1);
        session.stop("All tests pass.");
        assert!(story.sortie("Add login").errors.iter().all(|error| error.cleared_at.is_some()));
    }

    fn a_full_context_is_told_to_its_agent(world: &World) {
        let story = Story::new(world);
        let session = claude(&story, "one", 7);
        session.prompt("Add login");
        let used = |tokens| {
            let worked = SessionEvent::Worked { paths: Vec::new(), failed: None };
            story.run("", &TellHook { tokens: Some((tokens, 100)), ..session.request(worked) }).unwrap().context
        };
        assert_eq!(used(40), None);
        assert!(used(80).unwrap().contains("80 % full"));
        assert_eq!(used(81), None, "once");
        assert!(used(93).unwrap().contains("Stop after this operation"));
    }

    fn a_session_that_is_resumed_in_another_process_lives_there(world: &World) {
        let story = Story::new(world);
        claude(&story, "one", 7).prompt("Add login");
        let resumed = claude(&story, "one", 9);
        let went_on = resumed.tell(SessionEvent::Worked { paths: Vec::new(), failed: None });
        assert!(went_on.begun, "{went_on:?}");
        let agent = story.agent("claude");
        assert_eq!((agent.process, agent.epoch), (Some(resumed.process()), 1));
    }

    fn entries_of_a_task_list_are_followed_one_by_one(world: &World) {
        let story = Story::new(world);
        let session = claude(&story, "one", 7);
        session.prompt("Add login");
        let task = |id: &str, text: Option<&str>, status| session.tell(SessionEvent::TaskMoved {
            id: title(id), title: text.map(title), status,
        });
        task("1", Some("Model"), None);
        task("2", Some("Docs"), None);
        task("1", None, Some(PlannedStatus::InProgress));
        task("1", None, Some(PlannedStatus::Completed));
        task("2", None, Some(PlannedStatus::InProgress));
        let sorties = story.all::<Sortie>().into_iter().map(|it| (it.title.to_string(), it.status));
        let expected = [("Model", SortieStatus::Completed), ("Docs", SortieStatus::InProgress)];
        assert_eq!(sorties.collect::<Vec<_>>(), expected.map(|(title, status)| (title.to_owned(), status)));
        // One that nobody knows is none.
        task("9", None, Some(PlannedStatus::Completed));
        assert_eq!(story.all::<Sortie>().len(), 2);
    }

    fn subagents_are_agents_that_end_with_their_session(world: &World) {
        let story = Story::new(world);
        let session = claude(&story, "one", 7);
        session.prompt("Add login");
        let subagent = |event| {
            let subagent = SubagentRef { id: title("ac4374a93"), kind: Some(title("reviewer")) };
            story.run("", &TellHook { subagent: Some(subagent), ..session.request(event) }).unwrap()
        };
        let started = subagent(SessionEvent::Started).agent.unwrap();
        assert_eq!(started.name.as_str(), "claude-reviewer-374a93");
        // Its session waits for it, so that its session's files are not in its way; those of others are.
        session.edit("src/a.rs");
        let edit = |file: &str| subagent(SessionEvent::Editing { paths: vec![path(file)] }).deny;
        assert_eq!(edit("src/a.rs"), None);
        claude(&story, "two", 8).edit("src/b.rs");
        assert!(edit("src/b.rs").is_some());
        claude(&story, "two", 8).tell(SessionEvent::Ended);
        subagent(SessionEvent::Stopped { said: None });
        let names = || crew(&story).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(), ["claude", "claude-2"]);
        subagent(SessionEvent::Started);
        assert_eq!(names().len(), 3);
        session.tell(SessionEvent::Ended);
        assert_eq!(names(), ["claude", "claude-2"]);
    }
}
