//! The promises of the tools that need no fleet: how much they cost, and that their requests are those of operations.

use std::collections::BTreeSet;

use flightline::core::briefing::estimate_tokens;
use flightline::registry;
use schemars::SchemaGenerator;

use super::*;

fn listed(which: Loaded) -> String {
    let tools: Vec<Described> = loaded(which).map(Tool::described).collect();
    serde_json::to_string(&tools).unwrap()
}

#[test]
fn the_schemas_of_arguments_are_those_of_the_types() {
    let made = all().map(|tool| (tool.name.to_owned(), schema::input_of(tool.input).into()));
    let made: serde_json::Map<String, Value> = made.collect();
    let text = format!("{:#}\n", Value::Object(made));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tools.json");
    #[expect(
        clippy::disallowed_methods,
        reason = "as snapshots are renewed everywhere"
    )]
    if std::env::var("UPDATE_EXPECT").is_ok() {
        std::fs::write(path, &text).unwrap();
    }
    #[expect(clippy::disallowed_methods, reason = "a file of the repository")]
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == text,
        "src/tools.json is old: run this test with UPDATE_EXPECT=1"
    );
}

#[test]
fn tools_cost_few_tokens() {
    let (core, full) = (listed(Loaded::Core), listed(Loaded::Full));
    assert_eq!(loaded(Loaded::Core).count(), 8);
    assert_eq!(loaded(Loaded::Full).count(), 15);
    assert!(
        estimate_tokens(&core) <= 1_600,
        "{}",
        estimate_tokens(&core)
    );
    assert!(
        estimate_tokens(&full) <= 4_000,
        "{}",
        estimate_tokens(&full)
    );
}

#[test]
fn every_tool_says_what_it_is_and_does() {
    for tool in all() {
        let described = tool.described();
        assert!(tool.name.starts_with("fleet_"), "{}", tool.name);
        assert!(described.title.is_some() && described.description.is_some());
        let annotations = described.annotations.unwrap();
        let does = [annotations.read_only_hint, annotations.destructive_hint];
        assert!(does.iter().any(Option::is_some), "{}", tool.name);
        let schema = Value::Object(described.output_schema.unwrap().as_ref().clone());
        jsonschema::validator_for(&schema).unwrap();
        let schema = Value::Object(described.input_schema.as_ref().clone());
        assert_eq!(schema["type"], "object");
        jsonschema::validator_for(&schema).unwrap();
    }
}

#[test]
fn every_action_makes_a_request_that_its_operation_takes() {
    let mut done: BTreeSet<(&str, String)> = BTreeSet::new();
    for (name, arguments) in examples() {
        let tool = find(name).unwrap_or_else(|| panic!("{name}"));
        let given: Value = serde_json::from_str(arguments).unwrap();
        let schema = Value::Object(tool.arguments());
        assert!(jsonschema::is_valid(&schema, &given), "{name} {arguments}");
        let plan = (tool.plan)(arguments).unwrap_or_else(|it| panic!("{name} {arguments}: {it}"));
        let entry = registry::find(plan.call.operation).unwrap();
        let mut schemas = SchemaGenerator::default();
        let mut schema = (entry.request)(&mut schemas).to_value();
        schema["$defs"] = Value::Object(schemas.take_definitions(true));
        let validator = jsonschema::validator_for(&schema).unwrap();
        let request = &plan.call.request;
        if let Some(error) = validator.iter_errors(request).next() {
            panic!(
                "{name} {arguments} asks {} for {request}: {error}",
                entry.name
            );
        }
        for field in request.as_object().unwrap().keys() {
            assert!(
                schema["properties"].get(field).is_some(),
                "{name}: {} has no `{field}`",
                entry.name
            );
        }
        done.insert((
            name,
            given["action"].as_str().unwrap_or_default().to_owned(),
        ));
    }
    for tool in all() {
        let schema = Value::Object(tool.arguments());
        let actions = schema
            .pointer("/properties/action/enum")
            .and_then(Value::as_array);
        for action in actions.into_iter().flatten() {
            let action = action.as_str().unwrap().to_owned();
            let by_default = action == "add" && tool.name == "fleet_note";
            assert!(
                by_default || done.contains(&(tool.name, action.clone())),
                "{} {action} has no example",
                tool.name
            );
        }
    }
}

#[test]
fn arguments_that_do_not_fit_are_told_in_plain_words() {
    let refused =
        |name: &str, arguments: &str| (find(name).unwrap().plan)(arguments).err().unwrap().message;
    assert_eq!(
        refused("fleet_sortie", r#"{"action":"complete"}"#),
        "`complete` of `fleet_sortie` lacks `sortie`"
    );
    assert_eq!(
        refused("fleet_status", r#"{"missoin":"x"}"#),
        "the call of `fleet_status` has `missoin`, which is none of its fields: `mission`"
    );
}
