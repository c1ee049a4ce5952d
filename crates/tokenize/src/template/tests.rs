use serde_json::{Value, json};

use super::*;

fn render(template: &str, messages: Value) -> Result<String> {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    ChatTemplate::new(template, SpecialTokens::default())?.render(&messages, &RenderOptions::default())
}

#[test]
fn renders_as_hugging_face_does() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("../../tests/data/templates.json")).unwrap();
    assert!(rows.len() > 10);
    for row in rows {
        let specials =
            SpecialTokens { bos: Some("<s>".into()), eos: Some("</s>".into()), ..SpecialTokens::default() };
        let template = ChatTemplate::new(row["template"].as_str().unwrap(), specials).unwrap();
        let messages: Vec<Message> = serde_json::from_value(row["messages"].clone()).unwrap();
        let options = RenderOptions {
            tools: row["tools"].as_array().map(Vec::as_slice),
            add_generation_prompt: row["add_generation_prompt"].as_bool().unwrap(),
            variables: Map::new(),
        };
        let got = template.render(&messages, &options).unwrap_or_else(|e| panic!("{}: {e}", row["name"]));
        assert_eq!(got, row["expected"].as_str().unwrap(), "{}", row["name"]);
    }
}

const TEXT: &str = "{% for m in messages %}{{ m.role + ':' + m.content }};{% endfor %}";
const PARTS: &str = "{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}[{{ p.text }}]{% else %}<image>{% endif %}{% endfor %};{% endfor %}";
const BOTH: &str = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text or '<image>' }}{% endfor %}{% endif %};{% endfor %}";

#[test]
fn content_takes_the_form_that_the_template_wants() {
    let parts =
        json!([{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "!"}]}]);
    assert_eq!(render(TEXT, parts.clone()).unwrap(), "user:hi!;");
    assert_eq!(render(PARTS, parts.clone()).unwrap(), "[hi][!];");
    assert_eq!(render(BOTH, parts).unwrap(), "hi!;");

    let image = json!([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "hi"}]}]);
    assert_eq!(render(PARTS, image.clone()).unwrap(), "<image>[hi];");
    assert_eq!(render(BOTH, image.clone()).unwrap(), "<image>hi;");
    let error = render(TEXT, image).unwrap_err().to_string();
    assert_eq!(error, "chat template: the template does not take parts other than text");

    let mixed = json!([{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "user", "content": "b"}]);
    assert_eq!(render(PARTS, mixed).unwrap(), "[a];[b];");
}

#[test]
fn text_content_reaches_templates_that_want_parts() {
    let template = ChatTemplate::new(PARTS, SpecialTokens::default()).unwrap();
    let rendered = template.render(&[Message::new("user", "hi")], &RenderOptions::default()).unwrap();
    assert_eq!(rendered, "[hi];");
}

#[test]
fn refusals_and_mistakes_are_errors_that_say_why() {
    let user = json!([{"role": "user", "content": "x"}]);
    let error = |template: &str| render(template, user.clone()).unwrap_err().to_string();
    assert_eq!(
        error("\n{{ raise_exception('Roles must alternate') }}"),
        "chat template: Roles must alternate (line 2)"
    );
    assert!(error("{% if %}").contains("line 1"), "{}", error("{% if %}"));
    assert!(error("{{ messages[0].a.b }}").contains("line 1"));
    assert!(error("{{ nothing | tojson }}").contains("undefined"));
    assert!(error("{{ 1 | no_filter }}").contains("no_filter"));
    assert!(error("{{ strftime_now('%Q') }}").contains("strftime_now"));
}

#[test]
fn templates_end_and_cannot_fill_memory() {
    for template in [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{{ 'x' * 99999999999 }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ] {
        assert!(render(template, json!([])).is_err(), "{template}");
    }
}

#[test]
fn deep_nesting_does_no_harm() {
    let nest = "{% set ns = namespace(x=[]) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    assert_eq!(render(&format!("{nest}ok"), json!([])).unwrap(), "ok");
    for end in ["{{ ns.x }}", "{{ ns.x | tojson }}"] {
        let error = render(&format!("{nest}{end}"), json!([])).unwrap_err().to_string();
        assert!(error.contains("nests deeper"), "{error}");
    }
    for source in
        ["{{ ".to_owned() + &"(".repeat(100_000), "{% if 1 %}".repeat(100_000), "{{ [".repeat(100_000)]
    {
        assert!(ChatTemplate::new(&source, SpecialTokens::default()).is_err());
    }
}

#[test]
fn tools_choose_their_template() {
    let template = ChatTemplate::with_tool_use("plain", Some("tools"), SpecialTokens::default()).unwrap();
    let tools = [json!({"type": "function"})];
    let with = |tools| template.render(&[], &RenderOptions { tools, ..RenderOptions::default() }).unwrap();
    assert_eq!(
        (with(None), with(Some(&[])), with(Some(&tools))),
        ("plain".into(), "plain".into(), "tools".into())
    );
}

#[test]
fn variables_reach_the_template() {
    let template = ChatTemplate::new(
        "{{ enable_thinking }} {{ strftime_now('%Y') | length }} {{ x is defined }}",
        SpecialTokens::default(),
    )
    .unwrap();
    let mut options = RenderOptions::default();
    options.variables.insert("enable_thinking".into(), json!(false));
    assert_eq!(template.render(&[], &options).unwrap(), "False 4 False");
}

#[test]
fn generation_tags_keep_their_whitespace_control() {
    assert_eq!(
        without_generation_blocks("a {%- generation -%} b {% endgeneration %} {% if x %}"),
        "a {%- if true -%} b {% endif %} {% if x %}"
    );
    assert_eq!(without_generation_blocks("no tags {{ x }} {% broken"), "no tags {{ x }} {% broken");
}

#[test]
fn messages_keep_what_they_do_not_know() {
    let message: Message =
        serde_json::from_value(json!({"role": "assistant", "tool_calls": [1], "name": "n"})).unwrap();
    assert_eq!(message.content, Content::Null);
    assert_eq!(message.extra["tool_calls"], json!([1]));
    assert_eq!(
        render("{{ messages[0].name }}{{ messages[0].content is none }}", json!([message])).unwrap(),
        "nTrue"
    );
}
