//! The commands of a page: what stands in its fenced blocks, and between backticks in its text.

use std::fs;
use std::path::Path;

/// Words that a command of these pages begins with.
const PROGRAMS: [&str; 5] = ["airgate", "oc", "kubectl", "skopeo", "image/build"];

pub struct Page {
    pub name: &'static str,
    pub commands: Vec<Command>,
    /// Such as `oc get events -n default` in the middle of a sentence.
    pub mentioned: Vec<String>,
}

#[derive(Debug)]
pub struct Command {
    pub line: usize,
    pub text: String,
    /// What the page shows of its output; a line `...` stands for any number of others.
    pub shown: Option<String>,
}

impl Page {
    pub fn read(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::parse(name, &text)
    }

    /// Fenced blocks: `sh` holds commands, `output` right after one what its last command prints, `yaml` and `text` none.
    /// A block by indentation alone holds commands.
    fn parse(name: &'static str, text: &str) -> Self {
        let mut page = Self { name, commands: vec![], mentioned: vec![] };
        let mut lines = text.lines().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let Some(language) = line.trim_start().strip_prefix("```") else {
                if let Some(first) = line.strip_prefix("    ") {
                    let mut body = vec![(number + 1, first.to_owned())];
                    while let Some((number, line)) = lines.next_if(|(_, line)| line.starts_with("    ")) {
                        body.push((number + 1, line[4..].to_owned()));
                    }
                    page.commands.extend(commands(body));
                    continue;
                }
                page.mentioned.extend(mentioned(line));
                continue;
            };
            let indented = line.len() - line.trim_start().len();
            let unindented = |line: &str| line.get(indented..).unwrap_or_default().to_owned();
            let body: Vec<(usize, String)> = lines
                .by_ref()
                .take_while(|(_, line)| line.trim_start() != "```")
                .map(|(number, line)| (number + 1, unindented(line)))
                .collect();
            match language {
                "sh" => page.commands.extend(commands(body)),
                "output" => {
                    let command = page.commands.last_mut().unwrap_or_else(|| panic!("{name}: output of no command"));
                    let shown: Vec<_> = body.into_iter().map(|(_, line)| line).collect();
                    assert!(command.shown.replace(shown.join("\n")).is_none(), "{name}: two outputs of one command");
                }
                "yaml" | "text" => {}
                _ => panic!("{name}:{}: a block of an unknown language: {line}", number + 1),
            }
        }
        page
    }
}

/// One command a line, unless it goes on: after a backslash or a pipe, or up to the end of a here-document.
fn commands(lines: Vec<(usize, String)>) -> Vec<Command> {
    let mut found: Vec<Command> = vec![];
    let mut open = false;
    let mut until: Option<String> = None;
    for (line, text) in lines {
        if let Some(end) = &until {
            let last = found.last_mut().expect("a here-document has a command");
            last.text = format!("{}\n{text}", last.text);
            if text == *end {
                until = None;
            }
            continue;
        }
        if !open && (text.trim().is_empty() || text.starts_with('#')) {
            continue;
        }
        if open {
            let last = found.last_mut().expect("it goes on");
            last.text = format!("{}\n{text}", last.text);
        } else {
            found.push(Command { line, text: text.clone(), shown: None });
        }
        open = text.ends_with('\\') || text.ends_with('|');
        until = text.split_once("<<").map(|(_, word)| {
            word.trim().split(char::is_whitespace).next().unwrap_or_default().trim_matches(['\'', '"']).to_owned()
        });
    }
    assert!(!open && until.is_none(), "the last command of a block goes on: {:?}", found.last());
    found
}

/// The commands between backticks in a line of text.
fn mentioned(line: &str) -> Vec<String> {
    let spans = line.split('`').skip(1).step_by(2);
    let command = |span: &&str| PROGRAMS.iter().any(|program| span.starts_with(&format!("{program} ")));
    spans.filter(command).map(str::to_owned).collect()
}

#[test]
fn a_page_is_taken_apart_command_by_command() {
    let text = "Run `oc get x`, see `words`.\n\n1. first\n\n   ```sh\n   # why\n   A=1\n   oc one \\\n     --more\n   cat > f <<EOF\n   oc no\n   EOF\n   \
        airgate x |\n     oc apply -f -\n   ```\n   ```output\n   fine\n   ```\n```yaml\noc no: 1\n```\n\n    oc two\n    oc three\n\nend\n";
    let page = Page::parse("a page", text);
    let commands: Vec<_> = page.commands.iter().map(|command| command.text.as_str()).collect();
    assert_eq!(
        commands,
        [
            "A=1",
            "oc one \\\n  --more",
            "cat > f <<EOF\noc no\nEOF",
            "airgate x |\n  oc apply -f -",
            "oc two",
            "oc three"
        ]
    );
    assert_eq!(page.commands[3].shown.as_deref(), Some("fine"));
    assert_eq!(page.commands[1].line, 8);
    assert_eq!(page.mentioned, ["oc get x"]);
}
