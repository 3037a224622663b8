//! Traces, from the real server to a collector on this machine: what is in them, what is not, and that nobody
//! waits for them.

mod collector;
mod node;

use std::time::{Duration, Instant};

use collector::{Collector, Manner, Span};
use node::{Node, World, warnings};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Spans are sent at once, for tests do not like to wait.
const SOON: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "20");

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// How long a batch may take in tests of collectors that hang, in milliseconds: longer than anybody is to wait.
const LONG: (&str, &str) = ("OTEL_EXPORTER_OTLP_TIMEOUT", "60000");
/// What did not wait for that was done by now, however busy the machine.
const IN_TIME: Duration = Duration::from_secs(30);

const SERVER: u64 = 2;
const INTERNAL: u64 = 1;

fn part_of(trace: &str, sampled: bool) -> String {
    format!("00-{trace}-{CALLER}-0{}", u8::from(sampled))
}

#[test]
fn a_request_is_a_span_of_its_callers_trace_with_its_time_in_the_queue_and_in_the_store() {
    let (world, collector) = (World::new(), Collector::start(Manner::Takes));
    let url = collector.url();
    let node = Node::start(
        &world,
        &[
            (ENDPOINT, &url),
            SOON,
            ("OTEL_SERVICE_NAME", "tower"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-door=open%20it"),
        ],
    );
    assert_eq!(node.ready["traces"], url.as_str(), "{}", node.ready);
    let caller = part_of(TRACE, true);
    let (status, made) = node.ask(
        "POST",
        "/api/v1/ops/create_mission?secret-query=1",
        &[
            ("traceparent", &caller),
            ("tracestate", "vendor=opaque"),
            ("x-request-id", "asked-first"),
            ("fleet-agent", "ada"),
            ("body", r#"{"title":"Quite private","sorties":[]}"#),
        ],
    );
    assert_eq!(status, 200, "{made}");

    let span = collector.request("asked-first");
    assert_eq!(span.name, "POST /api/v1/ops/{operation}");
    assert_eq!(span.kind, SERVER);
    assert_eq!((span.trace.as_str(), span.parent.as_str()), (TRACE, CALLER));
    assert_eq!(span.state, "vendor=opaque");
    assert!(!span.failed);
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/api/v1/ops/{operation}"),
        ("http.response.status_code", "200"),
        ("url.path", "/api/v1/ops/create_mission"),
        ("url.scheme", "http"),
        ("server.address", "127.0.0.1"),
        ("flightline.operation", "create_mission"),
        ("flightline.agent", "ada"),
        ("error.type", ""),
    ] {
        assert_eq!(span.says(name), value, "{name}: {span:?}");
    }
    let config = std::fs::read_to_string(world.place.state().join("config.toml")).unwrap();
    let project = format!("\"{}\"", span.says("flightline.project"));
    assert!(config.contains(&project), "{project}: {config}");

    let inside: Vec<Span> = collector.look(|arrived| {
        let spans = arrived.spans.iter().filter(|other| other.parent == span.id);
        spans.cloned().collect()
    });
    let written: Vec<&Span> = inside
        .iter()
        .filter(|span| span.says("flightline.operation") == "create_mission")
        .collect();
    let names: Vec<&str> = written.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["queue", "store"], "{inside:?}");
    assert_eq!(written[0].end, written[1].start);
    for part in &inside {
        assert_eq!((part.trace.as_str(), part.kind), (TRACE, INTERNAL));
        assert!(["read", "write"].contains(&part.says("flightline.queue")));
        assert!(span.start <= part.start && part.start <= part.end && part.end <= span.end);
    }

    collector.look(|arrived| {
        assert_eq!(arrived.resource["service.name"], "tower");
        assert_eq!(arrived.resource["telemetry.sdk.language"], "rust");
        assert!(arrived.resource.contains_key("service.version"));
        for head in &arrived.heads {
            assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
            assert!(head.contains("x-door: open it"), "{head}");
            assert!(head.contains("application/x-protobuf"), "{head}");
        }
    });
    let (status, said) = node.end();
    assert!(status.success());
    assert!(warnings(&said).is_empty(), "{said:?}");
    let line = said.iter().find(|line| line["request_id"] == "asked-first");
    let line = line.unwrap();
    assert_eq!(line["trace_id"], TRACE, "{line}");
    assert_eq!(line["operation"], "create_mission", "{line}");
    assert_eq!(line["agent"], "ada", "{line}");
    assert!(line["queue_us"].as_u64() <= line["duration_us"].as_u64());
}

#[test]
fn no_token_and_nothing_that_was_written_or_asked_for_is_in_what_is_sent() {
    let (world, collector) = (World::new(), Collector::start(Manner::Takes));
    let url = collector.url();
    let node = Node::start(&world, &[(ENDPOINT, &url), SOON]);
    let token = node.token().to_owned();
    let secret = token.rsplit('_').next().unwrap();
    let body = r#"{"title":"Quite private","sorties":[{"title":"Also private"}]}"#;
    node.ask("POST", "/api/v1/ops/create_mission", &[("body", body)]);
    for (number, path) in [
        format!("/api/v1/missions?cursor={token}"),
        format!("/api/v1/missions/{token}"),
        format!("/api/v1/checkpoints/{secret}"),
        format!("/{token}"),
        format!("/nowhere/{secret}"),
        "/api/v1/missions/quite%20private".to_owned(),
        format!("/api/v1/ops/{token}"),
    ]
    .iter()
    .enumerate()
    {
        let id = format!("odd-{number}");
        let forged = format!("Bearer {token}x");
        let own: [(&str, &str); 3] = [
            ("x-request-id", &id),
            ("user-agent", &token),
            ("fleet-agent", &token),
        ];
        node.ask("GET", path, &own);
        node.ask(
            "GET",
            path,
            &[("authorization", &forged), ("x-request-id", &token)],
        );
    }
    let (status, _) = node.ask("BREW", "/api/v1/missions", &[("x-request-id", "brewed")]);
    assert_eq!(status, 405);
    let odd = collector.request("brewed");
    assert_eq!(odd.says("http.request.method"), "_OTHER");
    assert_eq!(odd.name, "HTTP /api/v1/missions");
    let lost = collector.request("odd-4");
    assert_eq!((lost.name.as_str(), lost.says("http.route")), ("GET", ""));
    assert_eq!(lost.says("http.response.status_code"), "404");
    assert_eq!(lost.says("flightline.code"), "not_found");
    node.ask(
        "GET",
        "/api/v1/missions/msn-ffff?limit=3",
        &[("x-request-id", "plain")],
    );
    let plain = collector.request("plain");
    assert_eq!(plain.says("url.path"), "/api/v1/missions/msn-ffff");
    let odd = collector.request("odd-1");
    assert_eq!(odd.says("url.path"), "/api/v1/missions/{id}");
    // Not to be found is no failure of the server's.
    assert!(
        !lost.failed && lost.says("error.type").is_empty(),
        "{lost:?}"
    );
    node.end();
    collector.look(|arrived| {
        let bytes = String::from_utf8_lossy(&arrived.bytes);
        for private in [secret, "private", "cursor", "Bearer", "bearer"] {
            assert!(!bytes.contains(private), "{private}");
        }
    });
}

#[test]
fn who_asks_not_to_be_picked_is_not_and_others_begin_a_trace_of_their_own() {
    let (world, collector) = (World::new(), Collector::start(Manner::Takes));
    let url = collector.url();
    let node = Node::start(&world, &[(ENDPOINT, &url), SOON]);
    let unpicked = part_of(TRACE, false);
    for (id, parent) in [
        ("unpicked", unpicked.as_str()),
        ("nonsense", "00-nonsense-01"),
    ] {
        let asked = [("x-request-id", id), ("traceparent", parent)];
        assert_eq!(node.ask("GET", "/api/v1/missions", &asked).0, 200);
    }
    let span = collector.request("nonsense");
    assert_eq!(span.parent, "");
    assert!(span.trace.len() == 32 && span.trace != TRACE);
    let (_, said) = node.end();
    collector.look(|arrived| {
        let mut spans = arrived.spans.iter();
        assert!(!spans.any(|span| span.trace == TRACE || span.says("flightline.request_id") == "unpicked"));
    });
    let line = |id: &str| said.iter().find(|line| line["request_id"] == id).unwrap();
    assert!(line("unpicked")["trace_id"].is_null());
    assert_eq!(line("nonsense")["trace_id"], span.trace.as_str());
}

#[test]
fn what_fails_is_marked_and_so_are_jobs() {
    let (world, collector) = (World::new(), Collector::start(Manner::Takes));
    let url = collector.url();
    let node = Node::start(&world, &[(ENDPOINT, &url), SOON]);
    let job = |name: &'static str, failed: bool| {
        collector.until(name, |arrived| {
            let mut spans = arrived.spans.iter();
            let found =
                spans.find(|span| span.says("flightline.job") == name && span.failed == failed);
            found.cloned()
        })
    };
    let well = job("write_probe", false);
    assert_eq!(
        (well.name.as_str(), well.kind),
        ("job write_probe", INTERNAL)
    );
    assert!(well.parent.is_empty() && well.start < well.end);
    // The store is taken away.
    std::fs::rename(
        world.place.state(),
        world.place.state().with_extension("away"),
    )
    .unwrap();
    let make = [
        ("body", r#"{"title":"X","sorties":[]}"#),
        ("x-request-id", "failing"),
    ];
    assert_eq!(node.ask("POST", "/api/v1/ops/create_mission", &make).0, 503);
    let span = collector.request("failing");
    assert!(span.failed, "{span:?}");
    assert_eq!(span.says("error.type"), "unavailable");
    assert_eq!(span.says("http.response.status_code"), "503");
    let kind = job("write_probe", true).says("error.type").to_owned();
    assert!(
        ["unavailable", "no_project"].contains(&kind.as_str()),
        "{kind}"
    );
    std::fs::rename(
        world.place.state().with_extension("away"),
        world.place.state(),
    )
    .unwrap();
    node.end();
}

/// Many requests, all of which are answered, and none after waiting for a collector.
fn load(node: &Node) {
    for _ in 0..100 {
        let began = Instant::now();
        assert_eq!(node.ask("GET", "/readyz", &[]).0, 200);
        assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    }
}

#[test]
fn a_collector_that_is_gone_disturbs_nobody_and_is_told_of_once() {
    let world = World::new();
    // Nobody listens there.
    let port = 1;
    let url = format!("http://127.0.0.1:{port}/secret-path");
    let node = Node::start(&world, &[(ENDPOINT, &url), SOON]);
    load(&node);
    let began = Instant::now();
    let (status, said) = node.end();
    assert!(status.success());
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    let warned = warnings(&said);
    let (first, rest) = warned.split_first().expect("it is said");
    let beginning = format!("traces do not reach http://127.0.0.1:{port}: ");
    assert!(first.starts_with(&beginning), "{first}");
    assert!(!first.contains("secret-path"), "{first}");
    let end = format!("spans did not reach http://127.0.0.1:{port}");
    assert!(rest.len() == 1 && rest[0].ends_with(&end), "{warned:?}");
}

#[test]
fn a_collector_that_hangs_keeps_neither_requests_nor_the_end_waiting() {
    let (world, collector) = (World::new(), Collector::start(Manner::Hangs));
    let url = collector.url();
    let few = [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "8"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8"),
    ];
    let node = Node::start(&world, &[(ENDPOINT, &url), SOON, LONG, few[0], few[1]]);
    collector.until("anything", |arrived| {
        (!arrived.spans.is_empty()).then_some(())
    });
    load(&node);
    let began = Instant::now();
    let (status, said) = node.end();
    assert!(status.success());
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    let warned = warnings(&said);
    let [lost] = warned.as_slice() else {
        panic!("{warned:?}");
    };
    let lost = lost.strip_prefix("traces: ").unwrap();
    let count: usize = lost.split(' ').next().unwrap().parse().unwrap();
    assert!(count >= 100, "{lost}");
    assert!(
        lost.ends_with(&format!("spans did not reach {url}")),
        "{lost}"
    );
}

#[test]
fn what_was_cut_off_is_said_again_when_it_is_there() {
    let world = World::new();
    let collector = Collector::start(Manner::Unwell);
    let url = collector.url();
    let node = Node::start(&world, &[(ENDPOINT, &url), SOON]);
    node.until_said(&format!("traces do not reach {url}: it answers 503"));
    collector.recovers();
    node.ask("GET", "/readyz", &[("x-request-id", "afterwards")]);
    collector.request("afterwards");
    node.until_said(&format!("traces reach {url} again; spans lost so far: "));
    node.end();
}

#[test]
fn without_an_address_nothing_is_started_and_with_one_a_thread_is() {
    let (world, collector) = (World::new(), Collector::start(Manner::Takes));
    let url = collector.url();
    let sends = |node: &Node| {
        node.threads()
            .iter()
            .any(|name| name.starts_with("OpenTelemetry"))
    };
    let named = ("OTEL_SERVICE_NAME", "tower");
    for (variables, sent) in [
        (vec![named], false),
        (
            vec![(ENDPOINT, url.as_str()), ("OTEL_SDK_DISABLED", "true")],
            false,
        ),
        (
            vec![(ENDPOINT, url.as_str()), ("OTEL_TRACES_EXPORTER", "none")],
            false,
        ),
        (vec![(ENDPOINT, url.as_str())], true),
    ] {
        let node = Node::start(&world, &variables);
        assert_eq!(sends(&node), sent, "{variables:?}");
        assert_eq!(node.ready["traces"].is_string(), sent, "{}", node.ready);
        let (_, said) = node.end();
        assert!(warnings(&said).is_empty(), "{said:?}");
    }
    // The last one sent what it had before it ended, though the usual five seconds were not over.
    collector.look(|arrived| assert!(!arrived.spans.is_empty()));
}

#[test]
fn the_standard_settings_are_heeded_and_wrong_ones_are_said() {
    let (world, collector) = (World::new(), Collector::start(Manner::Takes));
    let own = format!("{}/in/here", collector.url());
    let node = Node::start(
        &world,
        &[
            (ENDPOINT, "http://127.0.0.1:1"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &own),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_TRACES_SAMPLER", "sometimes"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            SOON,
        ],
    );
    collector.until("a batch", |arrived| arrived.heads.first().cloned());
    let (_, said) = node.end();
    let warned = warnings(&said);
    assert_eq!(warned.len(), 2, "{warned:?}");
    for name in ["OTEL_TRACES_SAMPLER", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
        assert!(
            warned.iter().any(|line| line.starts_with(name)),
            "{warned:?}"
        );
    }
    collector.look(|arrived| {
        let head = &arrived.heads[0];
        assert!(head.starts_with("post /in/here http/1.1"), "{head}");
        assert!(head.contains("content-encoding: gzip"), "{head}");
    });

    let quiet = Collector::start(Manner::Takes);
    let url = quiet.url();
    let node = Node::start(
        &world,
        &[
            (ENDPOINT, &url),
            ("OTEL_TRACES_SAMPLER", "always_off"),
            SOON,
        ],
    );
    let picked = part_of(TRACE, true);
    assert_eq!(
        node.ask("GET", "/readyz", &[("traceparent", &picked)]).0,
        200
    );
    node.end();
    quiet.look(|arrived| assert!(arrived.heads.is_empty(), "{:?}", arrived.spans));
}

#[test]
fn the_binary_says_that_it_can() {
    let world = World::new();
    for (arguments, word) in [
        (&["--version"][..], "(otel)"),
        (&["serve", "--help"], ENDPOINT),
        (&["help", "serve"], ENDPOINT),
    ] {
        let done = world.place.fleet(arguments).output().unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}
