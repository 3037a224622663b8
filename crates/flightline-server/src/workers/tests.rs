use std::sync::mpsc::channel;
use std::time::Duration;

use flightline_testkit::{Engine, World};

use super::*;

fn workers(world: &World) -> Workers {
    crew_that(world, Arc::new(drop))
}

fn crew_that(world: &World, grouped: OnCommit) -> Workers {
    let store_config = Arc::new(StoreConfig {
        location: world.location.clone(),
        project: world.project.clone(),
        options: world.options(),
        policy: Policy::default(),
        tree: None,
    });
    Workers::start(&store_config, &grouped, Duration::from_secs(30)).unwrap()
}

fn write(queues: &Queues, home: &Arc<str>) -> Result<(), Refusal> {
    queues.send(home, Access::Write, Commit::Grouped, drop, |fleet| {
        fleet
            .store()?
            .write(|_| Ok::<_, flightline::store::StoreError>(()))
            .map_err(Refusal::from)
    })
}

#[test]
fn who_finds_the_queue_full_is_told_at_once_and_what_waits_is_done() {
    let world = World::new(Engine::Sqlite);
    let workers = workers(&world);
    let (queues, home) = (workers.queues(), &Arc::from(world.project.as_str()));
    let (busy, is_busy) = channel();
    let (go, may_go) = channel::<()>();
    queues
        .send(home, Access::Write, Commit::Grouped, drop, move |_| {
            let _ = busy.send(());
            let _ = may_go.recv();
            Ok(())
        })
        .unwrap();
    is_busy.recv().unwrap();
    let (done, is_done) = channel();
    for _ in 0..WRITES_WAITING {
        let done = done.clone();
        let taken = queues.send(home, Access::Write, Commit::Grouped, drop, move |_| {
            let _ = done.send(());
            Ok(())
        });
        taken.unwrap();
    }
    drop(done);
    let refused = write(&queues, home).unwrap_err();
    assert_eq!((refused.code, refused.retryable), (Code::Unavailable, true));
    // Reading goes on beside it.
    assert!(
        queues
            .run_here(home, Access::Read, Commit::Grouped, |fleet| Ok(fleet
                .now()
                .is_ok()))
            .unwrap()
    );
    go.send(()).unwrap();
    workers.dismiss();
    assert_eq!(is_done.iter().count(), WRITES_WAITING);
    assert_eq!(write(&queues, home).unwrap_err().code, Code::Unavailable);
}

fn work(project: &str) -> QueuedWork {
    QueuedWork {
        task: Box::new(task::WaitingRequest::new(|_: &mut Fleet| Ok(()), drop)),
        project: Arc::from(project),
        commit: Commit::Grouped,
    }
}

#[test]
fn a_write_that_comes_in_time_joins_a_group_of_its_project() {
    let (send, orders) = std::sync::mpsc::sync_channel(10);
    let arrives = |work: QueuedWork| send.send(WorkerMessage::Do(work)).unwrap();
    let mut queue = writer::WriteQueue::new(&orders);
    arrives(work("busy"));
    let mut group = queue.next_group().unwrap();
    assert_eq!(group.len(), 1);
    assert!(!queue.join(&mut group), "nothing came");
    arrives(work("other"));
    arrives(work("busy"));
    assert!(queue.join(&mut group));
    assert_eq!(group.len(), 2);
    // A write with a commit of its own keeps its place before those that came later.
    arrives(QueuedWork {
        commit: Commit::Own,
        ..work("busy")
    });
    arrives(work("busy"));
    assert!(!queue.join(&mut group));
    send.send(WorkerMessage::End).unwrap();
    let rest = std::iter::from_fn(|| queue.next_group());
    let rest: Vec<_> = rest
        .map(|group| (group[0].project.to_string(), group.len()))
        .collect();
    let one = |project: &str| (project.to_owned(), 1);
    assert_eq!(rest, [one("other"), one("busy"), one("busy")]);
}

#[test]
fn a_group_is_kept_open_only_while_its_work_is_shorter_than_a_commit() {
    let slow = writer::Pace(Duration::from_millis(5));
    assert!(slow.is_worth_joining(Duration::from_millis(4)));
    assert!(!slow.is_worth_joining(Duration::from_millis(5)));
    let unknown = writer::Pace::default();
    assert!(!unknown.is_worth_joining(Duration::ZERO));
}

#[test]
fn those_for_whom_there_was_no_time_keep_their_order_and_nobody_else_waiting() {
    let told = |waiting: &std::collections::VecDeque<QueuedWork>| {
        let projects = waiting.iter().map(|work| work.project.to_string());
        projects.collect::<Vec<_>>().join(" ")
    };
    let mut waiting: std::collections::VecDeque<QueuedWork> =
        ["busy", "other", "busy", "third"].map(work).into();
    let group = writer::gather(&mut waiting);
    assert_eq!((group.len(), told(&waiting).as_str()), (2, "other third"));
    // One of them was done. Before the next one, the others come.
    waiting.push_back(work("busy"));
    let rest = vec![work("busy")];
    let first = Arc::as_ptr(&rest[0].project);
    writer::put_back(rest, &mut waiting);
    assert_eq!(told(&waiting), "other third busy busy");
    assert_eq!(Arc::as_ptr(&waiting[2].project), first);
    writer::put_back(Vec::new(), &mut waiting);
    assert_eq!(waiting.len(), 4);
}

#[test]
fn a_panic_fails_its_own_request_only() {
    let world = World::new(Engine::Sqlite);
    let workers = workers(&world);
    let (queues, home) = (workers.queues(), &Arc::from(world.project.as_str()));
    let failed: Result<(), Refusal> = queues.run_here(home, Access::Write, Commit::Grouped, |_| {
        panic!("a test of ours")
    });
    assert_eq!(failed.unwrap_err().code, Code::CommitUnknown);
    let written = queues.run_here(home, Access::Write, Commit::Grouped, |fleet| {
        fleet
            .store()?
            .write(|_| Ok::<_, flightline::store::StoreError>(()))
            .map_err(Refusal::from)
    });
    written.unwrap();
    workers.dismiss();
}

/// Keeps the thread that writes busy until the answer, so that requests sent meanwhile wait.
fn hold(queues: &Queues, home: &Arc<str>) -> std::sync::mpsc::Sender<()> {
    let (busy, is_busy) = channel();
    let (go, may_go) = channel::<()>();
    queues
        .send(home, Access::Write, Commit::Own, drop, move |fleet| {
            let opened = fleet.now().is_ok();
            let _ = busy.send(opened);
            let _ = may_go.recv();
            Ok(())
        })
        .unwrap();
    assert!(is_busy.recv().unwrap());
    go
}

fn learn(fleet: &mut Fleet, text: &str, key: Option<&str>) -> Result<(), Refusal> {
    let text = flightline::core::text::NoteText::parse("text", text)?;
    let note = flightline::note::AddNote::of(flightline::core::note::NoteKind::Lesson, text);
    let caller = flightline::Caller {
        agent: Some("ada".to_owned()),
        user: "tester".to_owned(),
        idempotency_key: key.map(str::to_owned),
        ..flightline::Caller::default()
    };
    let added = fleet.run(&note, &caller);
    added.map(drop).map_err(flightline::Error::into_refusal)
}

fn begin(world: &World) {
    let mission = serde_json::json!({ "title": "One" });
    let mission: flightline::mission::CreateMission = serde_json::from_value(mission).unwrap();
    world.run("", &mission).unwrap();
}

fn lessons(world: &World) -> Vec<String> {
    let all = flightline::note::ListNotes {
        mission: None,
        kind: None,
        all: false,
    };
    let listed = world.run("", &all).unwrap();
    listed.iter().map(|note| note.text.to_string()).collect()
}

flightline_testkit::both_engines! {
    fn what_waits_is_committed_together_and_each_has_its_own_answer(world: &World) {
        begin(world);
        let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
        let seen = Arc::clone(&sizes);
        let workers = crew_that(world, Arc::new(move |size| seen.lock().unwrap().push(size)));
        let (queues, home) = (workers.queues(), &Arc::from(world.project.as_str()));
        let go = hold(&queues, home);
        let (told, answers) = channel();
        let ask = |number: usize, key: Option<&'static str>| {
            let told = told.clone();
            queues.send(
                home,
                Access::Write,
                Commit::Grouped,
                move |result: Result<(), Refusal>| {
                    let _ = told.send((number, result.map_err(|refusal| refusal.code)));
                },
                move |fleet| match number {
                    3 => Err(Refusal::invalid("no")),
                    4 => panic!("a test of ours"),
                    _ => learn(fleet, &format!("lesson {number}"), key),
                },
            ).unwrap();
        };
        ask(1, None);
        ask(2, Some("key"));
        ask(3, None);
        ask(4, None);
        ask(2, Some("key"));
        ask(5, Some("key"));
        ask(6, None);
        drop(told);
        go.send(()).unwrap();
        let mut answered: Vec<_> = (0..7).map(|_| answers.recv().unwrap()).collect();
        answered.sort_by_key(|(number, _)| *number);
        assert_eq!(answered, [
            (1, Ok(())),
            (2, Ok(())),
            (2, Ok(())),
            (3, Err(Code::InvalidInput)),
            (4, Err(Code::CommitUnknown)),
            (5, Err(Code::KeyReused)),
            (6, Ok(())),
        ]);
        workers.dismiss();
        assert_eq!(*sizes.lock().unwrap(), [1, 7]);
        assert_eq!(lessons(world), ["lesson 1", "lesson 2", "lesson 6"]);
        assert_eq!(world.problems(), Vec::<String>::new());
    }

    fn what_takes_long_has_a_commit_of_its_own_and_order_is_kept(world: &World) {
        begin(world);
        let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
        let seen = Arc::clone(&sizes);
        let workers = crew_that(world, Arc::new(move |size| seen.lock().unwrap().push(size)));
        let (queues, home) = (workers.queues(), &Arc::from(world.project.as_str()));
        let go = hold(&queues, home);
        for number in 1..=6 {
            let commit = if number == 4 { Commit::Own } else { Commit::Grouped };
            queues
                .send(home, Access::Write, commit, drop, move |fleet| learn(fleet, &format!("lesson {number}"), None))
                .unwrap();
        }
        go.send(()).unwrap();
        workers.dismiss();
        assert_eq!(*sizes.lock().unwrap(), [1, 3, 1, 2]);
        let all: Vec<String> = (1..=6).map(|number| format!("lesson {number}")).collect();
        assert_eq!(lessons(world), all);
    }
}
