//! The parameters and the body of a request, from a row and the schema of its operation.

use flightline::core::event::EventType;
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use crate::route::page::USUAL;
use crate::route::table::Route;
use crate::route::take::{MOST, NOT_FROM_AFAR, Take};

pub(super) const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$";
/// The pattern of a mission's id, whole or its beginning.
pub(super) const MISSION: &str =
    "^msn-([0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$";
const CHECKPOINT: &str = "^(chk-([0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})|@latest(~[0-9]{1,4})?)$";
/// The pattern of a revision or a checkpoint.
const POINT: &str = "^([0-9]{1,18}|chk-([0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})|@latest(~[0-9]{1,4})?)$";
const PLACE: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\\.[0-9]{1,18}$";
const CURSOR: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\\.[0-9]{1,18}~[A-Za-z0-9._:-]{1,100}$";
const EVENTS_CURSOR: &str =
    "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\\.[0-9]{1,18}~(after|before)$";

pub(super) fn place() -> Value {
    json!({ "type": "string", "pattern": PLACE, "description": "Only events after this position (`HISTORY.REV`), oldest first" })
}

/// Makes the schema of a cursor with this pattern.
fn cursor(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "description": "`next_cursor` of the page before" })
}

fn event_type() -> Value {
    let types: Vec<&str> = EventType::listed().collect();
    json!({ "description": "Only events of this type", "type": "string", "enum": types })
}

/// Makes the pattern of an id with this prefix, whole or its beginning.
fn id(prefix: &str) -> String {
    MISSION.replace("msn-", prefix)
}

/// Returns the pattern for references in this field, when the field refers to a subject.
fn reference(field: &str) -> Option<String> {
    Some(match field {
        "mission" | "mission_id" => MISSION.to_owned(),
        "sortie" | "depends_on" => id("srt-"),
        "checkpoint" => CHECKPOINT.to_owned(),
        _ => return None,
    })
}

pub(super) struct RequestShape {
    pub(super) parameters: Vec<Value>,
    pub(super) body: Option<Value>,
}

impl RequestShape {
    pub(super) fn at(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').collect();
        let named = parts
            .iter()
            .zip(parts.iter().skip(1))
            .filter_map(|(before, part)| {
                let name = part.strip_prefix('{')?.strip_suffix('}')?;
                let named = |prefix, of| (id(prefix), format!("The id of the {of}, or its beginning"));
                let (pattern, about) = match (*before, name) {
                    (_, "other") => (
                        CHECKPOINT.replace("^(", "^(now|"),
                        "The other checkpoint, or `now` for the current state".to_owned(),
                    ),
                    ("checkpoints", _) => (
                        CHECKPOINT.to_owned(),
                        "The id of the checkpoint, or its beginning; `@latest` is the newest".to_owned(),
                    ),
                    ("missions", _) => named("msn-", "mission"),
                    ("sorties", _) => named("srt-", "sortie"),
                    ("locks", _) => named("lck-", "lock"),
                    ("messages", _) => named("msg-", "message"),
                    ("notes", _) => named("nte-", "note"),
                    ("recoveries", _) => named("rcv-", "recovery"),
                    ("agents", _) => (NAME.to_owned(), "The name of the agent, or its id".to_owned()),
                    ("effects", _) => (NAME.to_owned(), "The key with which the effect was begun".to_owned()),
                    _ => (NAME.to_owned(), format!("The name of the {name}")),
                };
                let schema = json!({ "type": "string", "pattern": pattern });
                Some(json!({ "name": name, "in": "path", "required": true, "description": about, "schema": schema }))
            });
        Self {
            parameters: named.collect(),
            body: None,
        }
    }

    /// Adds every field of this schema as a parameter of the query.
    pub(super) fn query(&mut self, schema: &Value) {
        let fields = schema["properties"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        for (name, schema) in fields {
            let schema = match name.as_str() {
                "cursor" => cursor(CURSOR),
                "after" => place(),
                "type" => event_type(),
                _ => schema,
            };
            self.ask(&name, &name, &schema);
        }
    }

    fn ask(&mut self, name: &str, field: &str, schema: &Value) {
        let mut schema = not_null(schema);
        if let Some(pattern) = reference(field) {
            schema["pattern"] = json!(pattern);
        }
        let about = schema
            .as_object_mut()
            .and_then(|it| it.remove("description"));
        let mut parameter =
            json!({ "name": name, "in": "query", "required": false, "schema": schema });
        if let Some(about) = about {
            parameter["description"] = about;
        }
        self.parameters.push(parameter);
    }

    /// The parameters and the body of a row, from the fields of its operation.
    pub(super) fn of(route: &Route, path: &str, request: Value, schemas: &SchemaGenerator) -> Self {
        let mut asked = Self::at(path);
        let mut taken: Vec<&str> = NOT_FROM_AFAR.to_vec();
        let mut body = None;
        let field = |name: &str| request["properties"][name].clone();
        for take in route.takes {
            match *take {
                Take::Id(name)
                | Take::Key(name)
                | Take::Ids(name)
                | Take::Is(name, _)
                | Take::Not(name) => {
                    taken.push(name);
                }
                Take::Text(name, to) | Take::Number(name, to) | Take::Switch(name, to) => {
                    let schema = match (route.operation, name) {
                        ("replay", "from" | "to") => json!({
                            "type": "string", "pattern": POINT, "description": field(to)["description"],
                        }),
                        ("show_state", "at") => json!({
                            "description": "A revision, a time or a checkpoint",
                            "anyOf": [{ "type": "string", "pattern": POINT }, { "type": "string", "format": "date-time" }],
                        }),
                        ("list_events", "type") => event_type(),
                        _ => field(to),
                    };
                    asked.ask(name, to, &schema);
                    taken.push(to);
                }
                Take::Limit(usual) => {
                    asked.ask("limit", "limit", &limit(usual));
                    taken.push("limit");
                }
                Take::All => taken.push("limit"),
                Take::ActsAs => {}
                Take::Act(word) => body = Some(act(word, &request, schemas)),
                Take::Bare(_) => {
                    body = Some(json!({ "type": "object", "additionalProperties": false }))
                }
                Take::Sorties => body = Some(one_or_several(&request)),
                Take::Mark => body = Some(mark()),
                Take::Other => taken.extend(["a", "b"]),
                Take::Place => {
                    asked.ask("step", "step", &json!({ "type": "string", "pattern": POINT, "description": "Only this step: one of its revisions, or a checkpoint that it took" }));
                    asked.ask("after", "after", &json!({ "type": "integer", "format": "uint64", "description": "The steps after this revision" }));
                    asked.ask("before", "before", &json!({ "type": "integer", "format": "uint64", "description": "The steps before this one" }));
                }
                Take::After => {
                    asked.ask("after", "after", &place());
                    asked.ask("cursor", "cursor", &cursor(EVENTS_CURSOR));
                }
                Take::Story => asked.ask("cursor", "cursor", &cursor(EVENTS_CURSOR)),
            }
        }
        if route.list.is_some() {
            asked.ask("limit", "limit", &limit(USUAL));
            asked.ask("cursor", "cursor", &cursor(CURSOR));
        }
        if route.has_body() {
            asked.body = Some(body.unwrap_or_else(|| self::body(request.clone(), &taken)));
        }
        asked
    }
}

fn limit(usual: u64) -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": MOST, "default": usual, "description": "Maximum number of entries" })
}

/// The body of a request, without fields that come from elsewhere.
pub(super) fn body(mut request: Value, taken: &[&str]) -> Value {
    let is_taken = |name: &str| taken.contains(&name);
    if let Some(required) = request.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(is_taken));
    }
    if let Some(fields) = request.get_mut("properties").and_then(Value::as_object_mut) {
        fields.retain(|name, _| !is_taken(name));
        for (name, schema) in fields {
            let Some(pattern) = reference(name) else {
                continue;
            };
            match schema.get_mut("items") {
                Some(items) => items["pattern"] = json!(pattern),
                None => schema["pattern"] = json!(pattern),
            }
        }
    }
    if let Some(fields) = request.as_object_mut() {
        fields.remove("title");
        fields.remove("description");
        fields.remove("$schema");
    }
    request
}

/// Describes the additional fields of an act on a sortie.
fn act(word: &str, request: &Value, schemas: &SchemaGenerator) -> Value {
    let acts = schemas.definitions().get("SortieAction");
    let variants = acts.and_then(|acts| acts["oneOf"].as_array());
    let found =
        variants.and_then(|variants| variants.iter().find_map(|it| it["properties"].get(word)));
    let mut found = found
        .cloned()
        .unwrap_or_else(|| json!({ "type": "object" }));
    // These fields stand beside the action in the request.
    for field in ["keep_locks", "checkpoint"] {
        found["properties"][field] = request["properties"][field].clone();
    }
    body(found, &[])
}

fn one_or_several(request: &Value) -> Value {
    let several = &request["properties"]["sorties"];
    json!({
        "anyOf": [
            several["items"],
            { "type": "object", "required": ["sorties"], "properties": { "sorties": several }, "additionalProperties": false },
        ],
    })
}

fn mark() -> Value {
    let one = |name: &str, schema: Value| json!({ "type": "object", "required": [name], "properties": { name: schema }, "additionalProperties": false });
    json!({
        "anyOf": [
            one("note", json!({ "description": "The new text of the note", "type": "string", "minLength": 1, "maxLength": 8_192, "pattern": "[^\\s\\u0000-\\u001f\\u007f-\\u009f]" })),
            one("pinned", json!({ "description": "True so that retention keeps it", "type": "boolean" })),
        ],
    })
}

/// Returns a schema without the null that stands for an absent field.
pub(super) fn not_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(types) = schema["type"].as_array() {
        let some: Vec<&Value> = types.iter().filter(|it| *it != "null").collect();
        if let [only] = some.as_slice() {
            schema["type"] = (*only).clone();
        }
    }
    if let Some(some) = schema["anyOf"].as_array() {
        let some: Vec<Value> = some
            .iter()
            .filter(|it| it["type"] != "null")
            .cloned()
            .collect();
        if let [only] = some.as_slice() {
            let about = schema.get("description").cloned();
            schema = only.clone();
            if let Some(about) = about {
                schema["description"] = about;
            }
        }
    }
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|name, value| !(name == "default" && value.is_null()));
        if fields.get("type").is_some_and(Value::is_null) {
            fields.remove("type");
        }
    }
    schema
}

/// Bounds every number whose format gives a bound. Writes a schema that admits anything as `{}`, because some readers take
/// `true` for none, and choices of words as one list.
pub(super) fn bounds(document: &mut Value) {
    list_words(document);
    for list in ["prefixItems", "anyOf", "oneOf", "allOf"] {
        if let Some(schemas) = document.get_mut(list).and_then(Value::as_array_mut) {
            schemas.iter_mut().for_each(spell_out);
        }
    }
    if let Some(fields) = document
        .get_mut("properties")
        .and_then(Value::as_object_mut)
    {
        fields.values_mut().for_each(spell_out);
    }
    if let Some(items) = document.get_mut("items") {
        spell_out(items);
    }
    match document {
        Value::Array(items) => items.iter_mut().for_each(bounds),
        Value::Object(fields) => {
            bound(fields);
            fields.values_mut().for_each(bounds);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Writes a choice of words as one list. It comes word by word, each with its meaning, but generators of clients know only
/// lists.
fn list_words(schema: &mut Value) {
    let Some(choices) = schema.get("oneOf").and_then(Value::as_array) else {
        return;
    };
    let mut words = Vec::new();
    for choice in choices {
        match (&choice["const"], &choice["enum"]) {
            (Value::String(word), _) => words.push(json!(word)),
            (_, Value::Array(several)) => words.extend(several.iter().cloned()),
            _ => return,
        }
    }
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("oneOf");
        fields.insert("type".to_owned(), json!("string"));
        fields.insert("enum".to_owned(), json!(words));
    }
}

fn spell_out(schema: &mut Value) {
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
}

fn bound(fields: &mut Map<String, Value>) {
    let (least, most) = match fields.get("format").and_then(Value::as_str) {
        Some("uint64" | "uint") => (json!(0), json!(u64::MAX)),
        Some("uint32") => (json!(0), json!(u32::MAX)),
        Some("int64") => (json!(i64::MIN), json!(i64::MAX)),
        Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
        _ => return,
    };
    fields.entry("minimum").or_insert(least);
    fields.entry("maximum").or_insert(most);
}

/// Gives the content of a choice a name of its own, such as `SortieActionAssign`: some generators of clients lose
/// schemas without a name.
pub(super) fn name_choices(schemas: &mut Map<String, Value>) {
    let mut named = Vec::new();
    for (name, schema) in schemas.iter_mut() {
        let choices = schema.get_mut("oneOf").and_then(Value::as_array_mut);
        for choice in choices.into_iter().flatten() {
            let Some(fields) = choice.get_mut("properties").and_then(Value::as_object_mut) else {
                continue;
            };
            for (word, inner) in fields.iter_mut() {
                if inner["type"] == "object" && inner.get("properties").is_some() {
                    let own = word.split('_').map(capitalized).collect::<String>();
                    let own = format!("{name}{own}");
                    let there = json!({ "$ref": format!("#/components/schemas/{own}") });
                    named.push((own, std::mem::replace(inner, there)));
                }
            }
        }
    }
    schemas.extend(named);
}

pub(super) fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
