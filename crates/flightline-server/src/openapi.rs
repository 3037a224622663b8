//! The description of the HTTP interface, made from the same table as the router.

use flightline::checkpoint::CheckpointDocument;
use flightline::checkpoint::inspect::CheckpointSummary;
use flightline::checkpoint::prune::Pruned;
use flightline::core::recovery::RecoveryContext;
use flightline::event::EventList;
use flightline::recovery::resume::RestoredCounts;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::operation::{find, operation_names};
use crate::route::{SPECIAL, Special, table};

/// The OpenAPI 3.1 document of everything that is served.
#[must_use]
pub fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut schemas = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for special in SPECIAL {
        add(
            &mut paths,
            special.path,
            special.method,
            special_of(special, &mut schemas),
        );
    }
    for route in table::ROUTES {
        let path = format!("/api/v1{}", route.path);
        let (method, status) = (route.method, route.status.as_u16());
        let described = describe(&Described {
            id: &id_of(method, route.path),
            about: route.about,
            path: &path,
            method,
            status,
            answer: match (find(route.operation), route.list) {
                (Ok(entry), None) => json!((entry.outcome)(&mut schemas)),
                _ => json!({}),
            },
            scope: find(route.operation).map_or("read", |entry| entry.scope.as_str()),
            operation: Some(route.operation),
        });
        add(&mut paths, &path, method, described);
    }
    let mut components: Map<String, Value> = schemas.take_definitions(true);
    components.insert("Problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Flightline",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Keeps fleets of AI agents alive through context death",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:7878" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": components,
        },
    })
}

struct Described<'a> {
    id: &'a str,
    about: &'a str,
    path: &'a str,
    method: &'a str,
    status: u16,
    /// The schema of the answer.
    answer: Value,
    scope: &'a str,
    operation: Option<&'a str>,
}

fn describe(it: &Described<'_>) -> Value {
    let mut parameters: Vec<Value> = it
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    let writes = it.method != "GET";
    if writes {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
        }));
    }
    let mut done = json!({ "description": "Done" });
    if it.status != 204 {
        done["content"] = json!({ "application/json": { "schema": it.answer } });
    }
    let mut described = json!({
        "operationId": it.id,
        "summary": it.about,
        "parameters": parameters,
        "responses": {
            it.status.to_string(): done,
            "default": {
                "description": "Not done",
                "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
            },
        },
        "x-scope": it.scope,
    });
    if let Some(operation) = it.operation {
        described["x-operation"] = json!(operation);
    }
    if matches!(it.method, "POST" | "PATCH") {
        described["requestBody"] = json!({
            "required": false,
            "content": { "application/json": { "schema": { "type": "object" } } },
        });
    }
    described
}

fn special_of(special: &Special, schemas: &mut SchemaGenerator) -> Value {
    let mut of = |name: &str| answer_of(name, schemas);
    let mut described = describe(&Described {
        id: special.id,
        about: special.about,
        path: special.path,
        method: special.method,
        status: special.status,
        answer: of(special.id),
        scope: special.scope,
        operation: None,
    });
    match special.id {
        "listCheckpoints" => {
            for (name, kind) in [
                ("mission_id", "string"),
                ("limit", "integer"),
                ("archived", "boolean"),
            ] {
                push_query(&mut described, name, kind);
            }
        }
        "streamEvents" => {
            described["responses"]["200"]["content"] =
                json!({ "text/event-stream": { "schema": { "type": "string" } } });
            for name in ["after", "mission_id", "type"] {
                push_query(&mut described, name, "string");
            }
        }
        "metrics" => {
            described["responses"]["200"]["content"] =
                json!({ "text/plain": { "schema": { "type": "string" } } });
        }
        "callOperation" => {
            described["parameters"][0]["schema"]["enum"] = json!(operation_names());
        }
        "healthz" | "readyz" => described["security"] = json!([]),
        _ => {}
    }
    described
}

fn push_query(described: &mut Value, name: &str, kind: &str) {
    if let Some(parameters) = described["parameters"].as_array_mut() {
        parameters.push(
            json!({ "name": name, "in": "query", "required": false, "schema": { "type": kind } }),
        );
    }
}

fn answer_of(id: &str, schemas: &mut SchemaGenerator) -> Value {
    match id {
        "createCheckpoint" => json!({
            "type": "object",
            "required": ["checkpoint"],
            "properties": { "checkpoint": schemas.subschema_for::<CheckpointDocument>() },
        }),
        "listCheckpoints" => json!({
            "type": "object",
            "required": ["checkpoints", "total"],
            "properties": {
                "checkpoints": { "type": "array", "items": schemas.subschema_for::<CheckpointSummary>() },
                "total": { "type": "integer", "minimum": 0 },
            },
        }),
        "showCheckpoint" => json!(schemas.subschema_for::<CheckpointDocument>()),
        "recoverCheckpoint" => json!({
            "type": "object",
            "required": ["success", "recovery_context", "restored", "warnings", "errors", "skipped_agents", "restored_state"],
            "properties": {
                "success": { "type": "boolean" },
                "recovery_context": schemas.subschema_for::<RecoveryContext>(),
                "restored": schemas.subschema_for::<RestoredCounts>(),
            },
        }),
        "pruneCheckpoints" => json!(schemas.subschema_for::<Pruned>()),
        "streamEvents" => json!(schemas.subschema_for::<EventList>()),
        _ => json!({}),
    }
}

/// `getSortiesId` of `GET /sorties/{id}`: unique, because routes are.
fn id_of(method: &str, path: &str) -> String {
    let mut id = method.to_ascii_lowercase();
    for part in path
        .split(['/', '{', '}', '-'])
        .filter(|part| !part.is_empty())
    {
        let mut letters = part.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.push_str(letters.as_str());
    }
    id
}

fn add(paths: &mut Map<String, Value>, path: &str, method: &str, described: Value) {
    let entry = paths.entry(path).or_insert_with(|| json!({}));
    entry[method.to_ascii_lowercase()] = described;
}

fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "code", "retryable", "request_id"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "code": { "type": "string" },
            "hint": { "type": "string" },
            "details": {},
            "retryable": { "type": "boolean" },
            "request_id": { "type": "string" },
        },
    })
}
