//! Completions for shells: the scripts of clap_complete, corrected where they offer the names of
//! files instead of values.

use clap::{Arg, ArgAction, Command};
use clap_complete::{Shell, generate};

/// The completions of a program for a shell.
pub fn script(shell: Shell, program: Command, name: &str) -> String {
    let mends = matches!(shell, Shell::Bash | Shell::Fish | Shell::Zsh);
    let mut program = if mends { with_marks(program) } else { program };
    let mut script = Vec::new();
    generate(shell, &mut program, name, &mut script);
    let script = String::from_utf8_lossy(&script);
    match shell {
        Shell::Bash => for_bash(&script),
        Shell::Fish => for_fish(&script, &program, name),
        Shell::Zsh => script.replace("==[", "=-["),
        _ => script.into_owned(),
    }
}

/// Marks each option whose value must be in the same word by a `=` at the end of its name:
/// clap_complete takes the next word for the value. The option's letter becomes a flag.
fn with_marks(command: Command) -> Command {
    let names: Vec<_> = command.get_subcommands().map(|part| part.get_name().to_owned()).collect();
    let mut letters = Vec::new();
    let command = command.mut_args(|arg| match arg.get_long() {
        Some(long) if arg.is_require_equals_set() => {
            // A name lives as long as the program, which ends with the script.
            let marked: &str = format!("{long}=").leak();
            if let Some(letter) = arg.get_short() {
                let help = arg.get_help().cloned().unwrap_or_default();
                let id: &str = format!("-{letter}").leak();
                letters.push(Arg::new(id).short(letter).help(help).action(ArgAction::SetTrue));
            }
            arg.long(marked).short(None)
        }
        _ => arg,
    });
    names
        .into_iter()
        .fold(command.args(letters), |command, name| command.mut_subcommand(name, with_marks))
}

/// Bash takes `--option=value` for three words.
fn for_bash(script: &str) -> String {
    const BEFORE: &str = "    prev=\"$3\"\n";
    const SPLIT: &str = r#"    if [[ "${COMP_WORDS[COMP_CWORD]}" == "=" ]]; then
        prev="${prev}="
    elif [[ "${prev}" == "=" ]]; then
        prev="${COMP_WORDS[COMP_CWORD-2]}="
    fi
"#;
    let script = script.replacen(BEFORE, &format!("{BEFORE}{SPLIT}"), 1);
    let lines = script.lines().map(|line| match line.trim_start() {
        words if words.starts_with("opts=") => line.replace("= ", " "),
        label if label.starts_with("--") && label.ends_with(')') && !label.ends_with("=)") => {
            let option = label.trim_end_matches(')');
            line.replace(label, &format!("{option}|{option}=)"))
        }
        _ => line.to_owned(),
    });
    lines.map(|line| line + "\n").collect()
}

/// clap_complete gives fish no values of operands, and nothing after `help`: its condition is that
/// no command was seen, and `help` is one.
fn for_fish(script: &str, program: &Command, name: &str) -> String {
    let help = format!("complete -c {name} -n \"__fish_{name}_using_subcommand help; and not ");
    let lines = script.lines().map(|line| match line.split_once("= -d ") {
        Some((before, after)) if before.contains(" -l ") => {
            format!("{before} -d {}", after.replacen(" -r", "", 1))
        }
        _ if line.starts_with(&help) => line.replacen(" help\"", "\"", 1),
        _ => line.to_owned(),
    });
    lines.chain(operands_for_fish(program, name, &[])).map(|line| line + "\n").collect()
}

fn operands_for_fish(command: &Command, name: &str, path: &[&str]) -> Vec<String> {
    let using = match path {
        [command] => format!("__fish_{name}_using_subcommand {command}"),
        [command, part, ..] => {
            format!(
                "__fish_{name}_using_subcommand {command}; and __fish_seen_subcommand_from {part}"
            )
        }
        [] => String::new(),
    };
    let of_this = command.get_positionals().filter_map(|operand| {
        let values = operand.get_possible_values();
        let values: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        let values = values.join(" ");
        (!values.is_empty())
            .then(|| format!("complete -c {name} -n \"{using}\" -f -a \"{values}\""))
    });
    let of_parts = command
        .get_subcommands()
        .flat_map(|part| operands_for_fish(part, name, &[path, &[part.get_name()]].concat()));
    of_this.chain(of_parts).collect()
}
