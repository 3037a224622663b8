//! The description of the HTTP interface, made from the same table as the router.

mod shape;

use flightline::core::event::Event;
use flightline::event::Cursor;
use flightline::registry::{OperationEntry, find, public_operations};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use self::shape::{RequestShape, bounds, capitalized, name_choices, not_null, place};
use crate::route::special::{SPECIAL, Special};
use crate::route::table::{ROUTES, Route};

/// Makes the OpenAPI 3.1 document of everything that is served.
pub fn make_openapi() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut schemas = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for special in SPECIAL {
        let described = special_of(special, &mut schemas);
        add(&mut paths, special.path, special.method, described);
    }
    for route in ROUTES {
        let path = format!("/api/v1{}", route.path);
        let described = row(route, &path, &mut schemas);
        add(&mut paths, &path, route.method, described);
    }
    for entry in public_operations() {
        let path = format!("/api/v1/ops/{}", entry.name);
        let described = operation_of(entry, &mut schemas);
        add(&mut paths, &path, "POST", described);
    }
    let mut components: Map<String, Value> = schemas.take_definitions(true);
    name_choices(&mut components);
    components.insert("Problem".to_owned(), problem());
    let mut document = json!({
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
            "parameters": parameters(),
            "headers": headers(),
            "responses": {
                "Problem": {
                    "description": "The request was refused, with the reason",
                    "headers": {
                        "X-Request-Id": { "$ref": "#/components/headers/X-Request-Id" },
                        "Retry-After": { "$ref": "#/components/headers/Retry-After" },
                    },
                    "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
                },
            },
            "schemas": components,
        },
    });
    bounds(&mut document);
    drop_unused(&mut document);
    document
}

/// Takes out the schemas that nothing names: those of requests that a route asks for in another shape.
fn drop_unused(document: &mut Value) {
    loop {
        let text = document.to_string();
        let schemas = document.pointer_mut("/components/schemas");
        let Some(schemas) = schemas.and_then(Value::as_object_mut) else {
            return;
        };
        let before = schemas.len();
        schemas.retain(|name, _| text.contains(&format!("\"#/components/schemas/{name}\"")));
        if schemas.len() == before {
            return;
        }
    }
}

struct Described<'a> {
    id: String,
    about: &'a str,
    method: &'a str,
    status: u16,
    scope: &'a str,
    operation: Option<&'a str>,
    asked: RequestShape,
    answer: Value,
    /// The media type of the answer.
    written: &'a str,
    tagged: bool,
    /// True when the request is about one subject, and takes a precondition on it.
    target: bool,
}

fn describe(it: Described<'_>) -> Value {
    let common = |name: &str| json!({ "$ref": format!("#/components/parameters/{name}") });
    let mut parameters = it.asked.parameters;
    let writes = it.method != "GET";
    if writes {
        parameters.push(common("Idempotency-Key"));
        if it.target {
            parameters.push(common("If-Match"));
        }
    } else if it.tagged {
        parameters.push(common("If-None-Match"));
    }
    if it.operation.is_some() || writes {
        parameters.push(common("Fleet-Agent"));
    }
    let header = |name: &str| json!({ "$ref": format!("#/components/headers/{name}") });
    let mut headers = json!({ "X-Request-Id": header("X-Request-Id") });
    if it.tagged || it.target {
        headers["ETag"] = header("ETag");
    }
    if writes {
        headers["Idempotent-Replayed"] = header("Idempotent-Replayed");
    }
    let mut done = json!({ "description": "The request was carried out", "headers": headers });
    if it.status != 204 {
        done["content"] = json!({ it.written: { "schema": it.answer } });
    }
    let mut responses = json!({
        it.status.to_string(): done,
        "default": { "$ref": "#/components/responses/Problem" },
    });
    if it.tagged && !writes {
        responses["304"] = json!({
            "description": "Nothing has changed since that ETag",
            "headers": { "ETag": header("ETag"), "X-Request-Id": header("X-Request-Id") },
        });
    }
    let mut described = json!({
        "operationId": it.id,
        "summary": it.about,
        "parameters": parameters,
        "responses": responses,
        "x-scope": it.scope,
    });
    if let Some(operation) = it.operation {
        described["x-operation"] = json!(operation);
    }
    if let Some(body) = it.asked.body {
        let required = body["required"].as_array().is_some_and(|it| !it.is_empty())
            || body.get("anyOf").is_some();
        described["requestBody"] = json!({
            "required": required,
            "content": { "application/json": { "schema": body } },
        });
    }
    described
}

fn row(route: &Route, path: &str, schemas: &mut SchemaGenerator) -> Value {
    let entry = find(route.operation).ok();
    let (request, outcome) = match entry {
        Some(entry) => (
            json!((entry.request)(schemas)),
            json!((entry.outcome)(schemas)),
        ),
        None => (json!({}), json!({})),
    };
    let described = |mut schema: Value, about: &str| {
        schema["description"] = json!(about);
        schema
    };
    let next_cursor = json!({ "type": ["string", "null"], "description": "The cursor of the next page; null on the last page" });
    let answer = match route.list {
        Some(list) => json!({
            "type": "object",
            "required": [list.things, "total", "next_cursor"],
            "properties": {
                list.things: described(outcome, &format!("The {} of this page", list.things)),
                "total": { "type": "integer", "minimum": 0, "description": format!("The number of {} on all pages", list.things) },
                "next_cursor": next_cursor,
            },
        }),
        None if route.operation == "list_events" => json!({
            "type": "object",
            "required": ["events", "cursor", "next_cursor"],
            "properties": {
                "events": described(json!(schemas.subschema_for::<Vec<Event>>()), "The events of this page"),
                "cursor": described(json!(schemas.subschema_for::<Cursor>()), "The position at which to continue"),
                "next_cursor": next_cursor,
            },
        }),
        None => outcome,
    };
    describe(Described {
        id: id_of(route.method, route.path),
        about: route.about,
        method: route.method,
        status: route.status.as_u16(),
        scope: entry.map_or("read", |entry| entry.scope.as_str()),
        operation: Some(route.operation),
        asked: RequestShape::of(route, path, request, schemas),
        answer,
        written: "application/json",
        tagged: route.method == "GET",
        target: route.target.is_some(),
    })
}

/// Describes an operation called by its name.
fn operation_of(entry: &OperationEntry, schemas: &mut SchemaGenerator) -> Value {
    let request = json!((entry.request)(schemas));
    let about = request["description"].as_str().unwrap_or_default();
    let about = about.replace('\n', " ");
    let first = about.split(". ").next().unwrap_or_default();
    let mut asked = RequestShape::at("");
    asked.body = Some(shape::body(request, &[]));
    describe(Described {
        id: id_of("ops", &entry.name.replace('_', "-")),
        about: first.trim_end_matches('.'),
        method: "POST",
        status: 200,
        scope: entry.scope.as_str(),
        operation: Some(entry.name),
        asked,
        answer: json!((entry.outcome)(schemas)),
        written: "application/json",
        tagged: false,
        target: false,
    })
}

fn special_of(special: &Special, schemas: &mut SchemaGenerator) -> Value {
    let mut asked = RequestShape::at(special.path);
    if let Some(query) = special.query {
        asked.query(&json!(query(schemas)));
    }
    asked.body = special
        .body
        .map(|body| shape::body(json!(body(schemas)), &[]));
    let mut described = describe(Described {
        id: special.id.to_owned(),
        about: special.about,
        method: special.method,
        status: special.status,
        scope: special.scope,
        operation: None,
        asked,
        answer: special
            .answer
            .map_or(json!({}), |answer| json!(answer(schemas))),
        written: special.written,
        tagged: special.tagged && special.method == "GET",
        target: special.tagged,
    });
    match special.id {
        "createCheckpoint" => {
            described["responses"]["201"]["headers"]["Location"] = json!({ "schema": { "type": "string" }, "description": "The address of the new record" });
        }
        "streamEvents" => {
            if let Some(parameters) = described["parameters"].as_array_mut() {
                parameters.push(json!({
                    "name": "Last-Event-ID", "in": "header", "required": false, "schema": place(),
                    "description": "The id of the last event received; later events are sent",
                }));
            }
        }
        "callOperation" => {
            let names: Vec<&str> = public_operations().map(|entry| entry.name).collect();
            described["parameters"][0]["schema"] = json!({ "type": "string", "enum": names });
            for entry in public_operations() {
                described["x-scopes"][entry.name] = json!(entry.scope.as_str());
            }
        }
        // Recovering and pruning need a body.
        "recoverCheckpoint" | "pruneCheckpoints" => {
            described["requestBody"]["required"] = json!(true);
        }
        "healthz" | "readyz" => {
            described["security"] = json!([]);
            described["responses"]["503"] = described["responses"]["200"].clone();
            described["responses"]["503"]["description"] =
                json!("The server cannot serve at present");
        }
        _ => {}
    }
    described
}

/// Makes the id of an operation: `getSortiesId` of `GET /sorties/{id}`. It is unique, because routes are.
fn id_of(method: &str, path: &str) -> String {
    let mut id = method.to_ascii_lowercase();
    for part in path
        .split(['/', '{', '}', '-'])
        .filter(|part| !part.is_empty())
    {
        id.push_str(&capitalized(part));
    }
    id
}

fn add(paths: &mut Map<String, Value>, path: &str, method: &str, described: Value) {
    let entry = paths.entry(path).or_insert_with(|| json!({}));
    entry[method.to_ascii_lowercase()] = described;
}

fn parameters() -> Value {
    let header = |name: &str, about: &str, schema: Value| json!({ "name": name, "in": "header", "required": false, "description": about, "schema": schema });
    json!({
        "Idempotency-Key": header("Idempotency-Key", "Does the write only once, even if it is sent several times", json!({ "type": "string", "minLength": 1, "maxLength": 255 })),
        "If-Match": header("If-Match", "The ETag of the version that was read: refused with 412 if it has changed since", json!({ "type": "string" })),
        "If-None-Match": header("If-None-Match", "The ETag of the known version: answered with 304 if it is unchanged", json!({ "type": "string" })),
        "Fleet-Agent": header("Fleet-Agent", "The agent that acts; by default the token's", not_null(&json!({ "type": "string", "pattern": shape::NAME }))),
    })
}

fn headers() -> Value {
    let header = |about: &str| json!({ "description": about, "schema": { "type": "string" } });
    json!({
        "ETag": header("The last change of the record: `HISTORY.REV`, and after a read a hash of the answer"),
        "Idempotent-Replayed": header("`true` when this is the answer of an earlier request with the same key"),
        "Retry-After": header("The number of seconds to wait before a retry"),
        "X-Request-Id": header("The id of this request in the server's log"),
    })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "Why a request was refused (RFC 9457)",
        "required": ["type", "title", "status", "detail", "code", "retryable", "request_id"],
        "properties": {
            "type": { "type": "string", "description": "The code of the problem as a URN: `urn:flightline:problem:lock_held`" },
            "title": { "type": "string", "description": "The reason phrase of the status" },
            "status": { "type": "integer", "description": "The HTTP status of the answer" },
            "detail": { "type": "string", "description": "What went wrong, with which thing, in a sentence for people" },
            "code": { "type": "string", "description": "The kind of refusal, as a word for programs: `lock_held`" },
            "hint": { "type": "string", "description": "What to do next, often a command" },
            "details": { "description": "Values that belong to the code, such as the candidates of an ambiguous id" },
            "retryable": { "type": "boolean", "description": "True when this request may succeed if it is sent again" },
            "request_id": { "type": "string", "description": "The id of this request in the server's log" },
        },
    })
}
