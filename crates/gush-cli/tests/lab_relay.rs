//! `gush lab relay`: its cases, its CSV, and what it says when the relay cannot start.

mod common;

use common::gush;

#[test]
fn csv_has_a_row_for_every_case_and_round() {
    let output = gush()
        .args(["lab", "relay", "--csv", "--rounds", "2", "--bytes", "9M", "--no-store"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let header =
        "case,method,connections,round,gib_per_s,wall_s,user_s,system_s,cpu_s_per_gib,bytes";
    assert_eq!(lines.next(), Some(header));
    for round in ["1", "2"] {
        for (name, method, connections) in [
            ("link", "auto", "1"),
            ("read-write", "read-write", "1"),
            ("splice", "splice", "1"),
            ("link-many", "auto", "16"),
            ("read-write-many", "read-write", "16"),
            ("splice-many", "splice", "16"),
        ] {
            let fields: Vec<&str> = lines.next().expect(name).split(',').collect();
            assert_eq!(fields[..4], [name, method, connections, round]);
            assert!(fields[4].parse::<f64>().unwrap() > 0.0, "{name}");
            assert!(fields[8].parse::<f64>().unwrap() > 0.0, "{name} computed");
            assert_eq!(fields[9], (9 << 20).to_string());
        }
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn a_case_that_nobody_knows_is_refused_with_those_that_there_are() {
    let output = gush().args(["lab", "relay", "--only", "sockmap"]).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("sockmap") && said.contains("splice-many"), "{said}");
}
