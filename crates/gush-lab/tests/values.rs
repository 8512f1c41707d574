//! Values of the crate's functions, room by room.

use gush_test as _;

mod bench {
    #[test]
    fn a_file_of_comparisons_gives_suites_their_names() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::bench::{Comparison, Input};
        let text = "[[comparison]]\nname = 'one'\ninput = '7'\n[[comparison.contender]]\ncommand = 'cp {in} {out}'\n";
        let all = Comparison::read("copies", text)?;
        assert_eq!(all[0].suite(), "copies/one");
        assert_eq!(all[0].input, Some(Input::Bytes(7)));
        Ok(())
    }

    #[test]
    fn an_input_of_a_file_is_read_as_that_of_the_option() {
        use gush_lab::bench::Comparison;
        for (input, why) in
            [("0", "an input of no bytes"), ("null", "/dev/null"), ("1.5", "no fraction")]
        {
            let text = format!(
                "[[comparison]]\nname = 'one'\ninput = '{input}'\n[[comparison.contender]]\ncommand = 'cat {{in}}'\n"
            );
            let said = Comparison::read("copies", &text).map(drop).unwrap_err().to_string();
            assert!(said.contains("line 3") && said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_program_that_is_missing_is_described() {
        use gush_lab::bench::absence;
        assert_eq!(absence("nosuch", "tool"), "nosuch is not installed");
        assert_eq!(absence("target/nosuch", "tool"), "target/nosuch does not exist");
        assert_eq!(absence("nosuch", "nosuch"), "is not installed");
    }

    #[test]
    fn equal_files_have_equal_content() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::bench::Content;
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("a"), "same")?;
        std::fs::write(dir.path().join("b"), "same")?;
        let [a, b] = ["a", "b"].map(|name| Content::of(&dir.path().join(name)));
        assert_eq!(a?, b?);
        Ok(())
    }

    #[test]
    fn an_output_is_a_word_or_a_path_with_a_slash() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::bench::Output;
        assert_eq!("pipe".parse::<Output>()?, Output::Pipe);
        assert_eq!("./pipe".parse::<Output>()?, Output::File("./pipe".into()));
        assert!("nul".parse::<Output>().is_err());
        Ok(())
    }

    #[test]
    fn failures_are_ignored_by_status() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::bench::Ignored;
        assert_eq!("all-non-zero".parse::<Ignored>()?, Ignored::All);
        assert_eq!("1,2".parse::<Ignored>()?, Ignored::Statuses(vec![1, 2]));
        assert!("some".parse::<Ignored>().is_err());
        Ok(())
    }

    #[test]
    fn each_contender_has_three_seconds() {
        assert_eq!(gush_lab::bench::Pace::usual(2).time.as_secs(), 6);
    }

    #[test]
    fn a_list_of_values_may_have_escaped_commas() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::bench::Parameter;
        assert_eq!(Parameter::list("x", "1,two,a\\,b")?.values, ["1", "two", "a,b"]);
        Ok(())
    }

    #[test]
    fn a_scan_includes_both_ends() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::bench::Parameter;
        assert_eq!(Parameter::scan("n", "1", "4", "1.5")?.values, ["1.0", "2.5", "4.0"]);
        assert_eq!(Parameter::scan("n", "8", "12", "2")?.values, ["8", "10", "12"]);
        Ok(())
    }

    #[test]
    fn times_have_three_or_four_digits() {
        use gush_lab::bench::show::{Unit, time};
        assert_eq!(time(0.0123456, None), "12.35 ms");
        assert_eq!(time(12.5, None), "12.50 s");
        assert_eq!(time(0.0000042, None), "4.2 µs");
        assert_eq!(time(0.0123456, Some(Unit::Second)), "0.0123 s");
    }

    #[test]
    fn a_shell_is_a_word_or_a_command() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::bench::Shell;
        assert_eq!("none".parse::<Shell>()?, Shell::None);
        assert_eq!("default".parse::<Shell>()?, Shell::Words(vec!["sh".into()]));
        assert_eq!("bash -r".parse::<Shell>()?, Shell::Words(vec!["bash".into(), "-r".into()]));
        assert!("".parse::<Shell>().is_err());
        Ok(())
    }

    #[test]
    fn only_syntax_of_the_shell_needs_a_shell() {
        use gush_lab::bench::needs_shell;
        assert!(!needs_shell("cp --reflink='never' {in} {out}"));
        assert!(!needs_shell("awk '{print $1}' {in}"));
        for command in
            ["cat {in} | wc -c", "cat <{in}", "echo $HOME", "ls *.rs", "A=1 b", "cd /", "a \"$b\""]
        {
            assert!(needs_shell(command), "{command}");
        }
    }

    #[test]
    fn values_are_taken_literally() {
        use gush_lab::bench::template::filled;
        let value_of = |name: &str| (name == "in").then(|| "{out}".to_owned());
        assert_eq!(filled("cp {in} {out} {", value_of), "cp {out} {out} {");
    }

    #[test]
    fn a_name_counts_in_braces_only() {
        use gush_lab::bench::template::names;
        assert!(names("cp {in} x", "in") && !names("cp in x", "in"));
    }

    #[test]
    fn braces_of_other_languages_are_no_names() {
        use gush_lab::bench::template::unknown;
        let is_known = |name: &str| name == "in";
        assert_eq!(unknown("cp {in} {outt}", is_known), Some("outt"));
        assert_eq!(unknown("cp {in} ${HOME}/{a,b} | awk '{print}'", is_known), None);
    }
}

mod case {
    #[test]
    fn cases_are_chosen_in_the_order_of_the_suite() {
        use gush_lab::case;
        use gush_lab::suite::{Asked, pipe};
        let all = || {
            let asked = Asked::read("gush", (pipe::SUITE.options)(), &[]);
            (pipe::SUITE.make)(&asked.unwrap()).unwrap().cases
        };
        let two =
            case::choose(all(), &["huge-splice".to_owned(), "write-read".to_owned()]).unwrap();
        assert_eq!((two.len(), two[0].described().case.as_str()), (2, "write-read"));
        assert!(case::choose(all(), &["nope".to_owned()]).is_err());
    }
}

mod compare {
    #[test]
    fn device_numbers_count_only_within_a_machine() {
        use gush_lab::compare;
        use gush_lab::model::{Described, Measured, Run, Sample};
        let run = |machine: &str, device: &str| {
            let measured = Measured { gib_per_s: Some(4.0), ..Measured::default() };
            let sample = |round| Sample::new("copy", "auto@1M", round, measured.clone());
            let cases = vec![Described::new("copy", "auto@1M").with("device", device)];
            let mut run = Run { cases, samples: (1..=5).map(sample).collect(), ..Run::default() };
            run.machine.id = machine.to_owned();
            run
        };
        let compared = |other: &Run| {
            let compared = compare::runs(&run("one", "/dev/vda"), other, None);
            (compared.cases.len(), compared.unlike.len())
        };
        assert_eq!(compared(&run("one", "/dev/vdb")), (0, 1));
        assert_eq!(compared(&run("other", "/dev/vdb")), (1, 0));
    }
}

mod copy {
    use gush_lab::suite::copy::{WAYS, Way};

    fn way(name: &str) -> &'static Way {
        WAYS.iter().find(|way| way.name == name).unwrap()
    }

    #[test]
    fn the_name_of_a_copy_has_all_parameters() {
        use gush_lab::suite::copy::What;
        let what = What {
            way: way("read-write-128K"),
            size_bytes: 1 << 20,
            advice: gush::Advice::Sequential,
            space: gush::Space::AsWritten,
            cold: true,
        };
        assert_eq!(what.name(), "read-write-128K+sequential+cold@1M");
    }

    #[test]
    fn a_textbook_copy_moves_all_bytes() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::suite::copy::{Once, What};
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("a"), [7; 5000])?;
        let what = What::plain(way("sendfile-4096"), 5000);
        let [source, target] = ["a", "b"].map(|name| dir.path().join(name));
        let measured = Once { what, source, target }.run()?;
        assert_eq!((measured.bytes, &measured.facts["method"]), (5000, &"sendfile".into()));
        assert_eq!(std::fs::read(dir.path().join("b"))?, [7; 5000]);
        Ok(())
    }

    #[test]
    fn a_plan_has_the_sizes_asked_for() {
        use gush_lab::suite::copy::{Choice, WAYS, plan};
        let small = plan(&Choice { sizes_bytes: vec![4096], ..Choice::default() });
        assert!(small.len() > WAYS.len() && small.iter().all(|what| what.size_bytes == 4096));
    }

    #[test]
    fn published_calls_are_scaled_to_the_size() {
        let calls = gush_lab::suite::copy::published("read-write-1024", 512 << 20).unwrap();
        assert_eq!(gush_lab::count::line(&calls), "read=524290;write=524288");
    }

    #[test]
    fn slips_of_the_published_table_are_corrected() {
        let printed = gush_lab::suite::copy::printed("read-write-64K", 512 << 20).unwrap();
        assert!(printed.starts_with("printed: read=4098;write=4096, "));
        assert_eq!(gush_lab::suite::copy::printed("read-write-4096", 512 << 20), None);
    }
}

mod count {
    #[test]
    fn calls_are_one_field_of_text() {
        use gush_lab::count::{Calls, line};
        let calls = Calls::from([("write".to_owned(), 2), ("read".to_owned(), 3)]);
        assert_eq!(line(&calls), "read=3;write=2");
    }
}

mod csv {
    #[test]
    fn fields_are_quoted_where_they_must_be() {
        use gush_lab::csv::field;
        assert_eq!(field("write-read"), "write-read");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn a_row_has_the_run_the_sample_and_its_facts() {
        use gush_lab::csv::Rows;
        use gush_lab::model::{Measured, Run, Sample};
        let measured = Measured { gib_per_s: Some(4.5), bytes: 4096, ..Measured::default() }
            .with("method", "splice")
            .with("syscalls", serde_json::json!({"read": 2}));
        let sample = Sample { suite: "copy".into(), case: "splice@4K".into(), round: 1, measured };
        let run = Run { id: "r".into(), gush: "0.1.0".into(), ..Run::default() };
        let facts = r#""{""method"":""splice"",""syscalls"":{""read"":2}}""#;
        let row =
            format!("r,1970-01-01T00:00:00Z,,,,,0.1.0,copy,splice@4K,1,4.500000,,,,4096,{facts}");
        assert_eq!(Rows::of(&run).row(&sample), row);
    }
}

mod error {
    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let error = gush_lab::Error::unknown("suite", "nope", ["pipe", "copy"]);
        assert_eq!(error.to_string(), "unknown suite 'nope'; choose from pipe, copy");
        let error = gush_lab::Error::unknown("suite", "pip", ["pipe", "copy"]);
        assert_eq!(error.to_string(), "unknown suite 'pip'; did you mean 'pipe'?");
    }
}

mod explain {
    #[test]
    fn kernel_functions_have_a_kind_by_the_beginning_of_their_names() {
        use gush_lab::explain::kind_of;
        assert_eq!(kind_of("rep_movs_alternative").unwrap().name(), "copying");
        assert_eq!(kind_of("__wake_up_sync_key").unwrap().name(), "wake-ups");
        assert!(kind_of("_raw_spin_unlock_irqrestore").is_none());
    }

    #[test]
    fn samples_of_perf_become_stacks() -> Result<(), Box<dyn std::error::Error>> {
        let script = "gush 1 1.000: 250000 cpu-clock:\n\
                      \tffffffff81000002 copy_page_to_iter+0x1 ([kernel.kallsyms])\n\
                      \tffffffff81000001 do_syscall_64+0x1 ([kernel.kallsyms])\n\n";
        let stacks = gush_lab::explain::Stacks::of_script(script.as_bytes())?;
        assert_eq!(stacks.cpu_ns(), 250_000);
        Ok(())
    }
}

mod figures {
    #[test]
    fn figures_have_ratios_to_the_baseline() {
        use gush_lab::figures;
        use gush_lab::model::{Described, Measured, Run, Sample};
        let sample = |case: &str, round, gib_per_s| Sample {
            suite: "pipe".into(),
            case: case.into(),
            round,
            measured: Measured { gib_per_s: Some(gib_per_s), ..Measured::default() },
        };
        let samples =
            (1..=5).flat_map(|round| [sample("a", round, 1.5), sample("b", round, 4.5)]).collect();
        let cases = vec![Described::new("pipe", "a"), Described::new("pipe", "b").against("a")];
        let found = figures::of(&Run { cases, samples, ..Run::default() });
        assert_eq!((found[1].case.as_str(), found[1].median.value), ("b", 4.5));
        assert_eq!(found[1].times.unwrap().around(1), "3.0 … 3.0");
    }
}

mod model {
    #[test]
    fn speed_is_throughput_or_runs_a_second() {
        use gush_lab::model::Measured;
        assert_eq!(Measured { gib_per_s: Some(4.5), ..Default::default() }.speed(), Some(4.5));
        assert_eq!(Measured { wall_s: Some(0.25), ..Default::default() }.speed(), Some(4.0));
        assert_eq!(Measured::default().speed(), None);
    }

    #[test]
    fn a_printed_figure_is_read_from_its_fact() {
        use gush_lab::model::{Measured, Printed};
        let latency =
            Printed { name: "median_us".into(), unit: "µs".into(), less_is_better: true };
        let measured = Measured::default().with(&latency.fact(), 41.5);
        assert_eq!(latency.of(&measured), Some(41.5));
    }

    #[test]
    fn a_warning_ends_with_its_remedy() {
        use gush_lab::model::Warning;
        let warning = Warning::new("turbo is on", "turn it off");
        assert_eq!(warning.to_string(), "turbo is on (turn it off)");
    }

    #[test]
    fn cases_that_only_samples_name_come_last() {
        use gush_lab::model::{Described, Measured, Run, Sample};
        let sample = |case: &str| Sample {
            suite: "pipe".into(),
            case: case.into(),
            round: 1,
            measured: Measured { wall_s: Some(1.0), ..Measured::default() },
        };
        let run = Run {
            cases: vec![Described::new("pipe", "known")],
            samples: vec![sample("older"), sample("known")],
            ..Run::default()
        };
        let summaries = gush_lab::bench::summaries(&run, "pipe");
        let names: Vec<&str> = summaries.iter().map(|one| one.label.as_str()).collect();
        assert_eq!(names, ["known", "older"]);
    }

    #[test]
    fn a_command_line_is_quoted() {
        let command = ["/usr/bin/gush", "lab", "run", "true x"].map(String::from).to_vec();
        let run = gush_lab::model::Run { command, ..Default::default() };
        assert_eq!(run.command_line(), "gush lab run 'true x'");
    }
}

mod pipe {
    #[test]
    fn techniques_are_sound_or_not() {
        use clap::ValueEnum;
        use gush_lab::pipe::Technique;
        assert!(Technique::from_str("fresh", false).is_ok_and(Technique::is_sound));
        assert!(!Technique::Vmsplice.is_sound());
    }

    #[test]
    fn waiting_depends_on_the_number_of_processors() {
        use gush_lab::pipe::{Technique, Waiting};
        assert_eq!(Technique::Reservoir.usual_waiting(2), Waiting::Hybrid);
        assert_eq!(Technique::Reservoir.usual_waiting(1), Waiting::Block);
        assert_eq!(Technique::Write.usual_waiting(2), Waiting::Block);
    }

    #[test]
    fn gift_needs_vmsplice() {
        use gush_lab::pipe::WriteOptions;
        let options = WriteOptions { gift: true, ..WriteOptions::default() };
        assert!(options.check().is_err(), "write(2) gives nothing away");
    }

    #[test]
    fn what_is_dropped_unread_cannot_be_verified() {
        use gush_lab::pipe::ReadOptions;
        let options = ReadOptions { verify: true, splice: true, ..ReadOptions::default() };
        assert!(options.check().is_err(), "what is dropped unread cannot be verified");
    }

    #[test]
    fn the_counter_pattern_is_found_again_at_any_offset() {
        use gush_lab::pipe::Pattern;
        let mut bytes = [0; 100];
        Pattern::Counter.fill(1000, &mut bytes);
        assert_eq!(bytes[0..8], 125_u64.to_le_bytes());
        assert_eq!(Pattern::Counter.first_wrong(1000, &bytes), None);
    }

    #[test]
    fn a_checker_reports_the_first_wrong_byte() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::pipe::{Checker, Pattern};
        let mut checker = Checker::new(Pattern::Constant);
        checker.check(b"XXX")?;
        assert_eq!(checker.check(b"XY").unwrap_err().at_bytes, 4);
        Ok(())
    }

    #[test]
    fn the_reader_prints_the_line_of_the_published_program() {
        use gush_lab::pipe::Reading;
        use std::time::Duration;
        let reading = Reading {
            bytes: 10 << 30,
            elapsed: Duration::from_millis(160),
            buffer_bytes: 256 << 10,
            pipe_bytes: Some(128 << 10),
        };
        assert_eq!(reading.to_string(), "62.5GiB/s, 256KiB buffer, 40960 iterations (10GiB piped)");
    }

    #[test]
    fn a_short_transfer_is_reported() {
        use gush_lab::pipe::Reading;
        use std::time::Duration;
        let elapsed = Duration::from_secs(1);
        let reading = Reading { bytes: 1 << 20, elapsed, buffer_bytes: 1 << 18, pipe_bytes: None };
        assert_eq!(reading.cut_short(1 << 20), None);
        assert_eq!(reading.cut_short(1 << 30).unwrap(), "the writer ended after 1MiB of 1GiB");
    }

    #[test]
    fn read_counts_the_bytes_of_a_pipe() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::pipe::{ReadOptions, read};
        use std::io::Write;
        let (reader, mut writer) = std::io::pipe()?;
        writer.write_all(b"XXXXX")?;
        drop(writer);
        let options = ReadOptions { verify: true, ..ReadOptions::default() };
        assert_eq!(read(&options, &reader, &mut |_| ()).unwrap().bytes, 5);
        Ok(())
    }

    #[test]
    fn write_writes_as_many_bytes_as_asked_for() -> Result<(), Box<dyn std::error::Error>> {
        use gush_lab::pipe::{WriteOptions, write};
        use std::io::Read;
        let (mut reader, writer) = std::io::pipe()?;
        let options = WriteOptions { bytes: Some(5), ..WriteOptions::default() };
        assert_eq!(write(&options, &writer, &mut |_| ()).unwrap(), 5);
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        assert_eq!(text, "XXXXX");
        Ok(())
    }
}

mod stats {
    #[test]
    fn four_samples_have_no_interval() {
        use gush_lab::stats::median;
        assert_eq!(median(&[4.0; 5]).unwrap().around(1), "4.0 … 4.0");
        assert_eq!(median(&[4.0; 4]).unwrap().around(1), "");
    }

    #[test]
    fn the_interval_of_a_median_is_of_samples() {
        let speed = gush_lab::stats::median(&[4.0, 4.1, 3.9, 4.2, 4.0]).unwrap();
        let interval = speed.interval.unwrap();
        assert_eq!((interval.low, speed.value, interval.high), (3.9, 4.0, 4.2));
    }

    #[test]
    fn ratios_of_runs_have_intervals() {
        let [of, to] = [[8.0, 8.2, 7.9, 8.0, 8.1], [2.0, 2.1, 2.0, 2.0, 1.9]];
        let ratio = gush_lab::stats::ratio(&of, &to).unwrap();
        assert_eq!(ratio.value, 4.0);
        assert!(ratio.interval.is_some_and(|interval| interval.low > 3.7 && interval.high < 4.4));
    }

    #[test]
    fn paired_ratios_ignore_what_slows_both() {
        // Both halve in the last round: the ratio does not care.
        let rounds = [(8.0, 2.0), (8.4, 2.1), (8.0, 2.0), (8.4, 2.1), (4.0, 1.0)];
        let ratio = gush_lab::stats::paired_ratio(&rounds).unwrap();
        assert_eq!(ratio.around(1), "4.0 … 4.0");
    }

    #[test]
    fn a_third_of_the_rounds_chooses() {
        use gush_lab::stats::choosing_rounds;
        assert_eq!([5, 6, 9, 30].map(choosing_rounds), [None, Some(1), Some(3), Some(10)]);
    }

    #[test]
    fn ranges_are_least_and_most() {
        assert_eq!(gush_lab::stats::range(&[3.0, 1.0, 10.0]), Some([1.0, 10.0]));
        assert_eq!(gush_lab::stats::range(&[]), None);
    }

    #[test]
    fn the_middle_of_an_even_number_is_a_mean() {
        assert_eq!(gush_lab::stats::middle(&[3.0, 1.0, 2.0, 10.0]), Some(2.5));
        assert_eq!(gush_lab::stats::middle(&[]), None);
    }

    #[test]
    fn a_z_score_measures_distance_in_deviations() {
        let scores = gush_lab::stats::modified_z_scores(&[2.0, 2.1, 1.9, 2.0, 9.0]);
        assert!(scores[0] == 0.0 && scores[4] > 40.0);
    }

    #[test]
    fn an_outlier_is_far_from_the_median() {
        let odd = gush_lab::stats::outliers(&[2.0, 2.1, 1.9, 2.0, 9.0]);
        assert_eq!(odd, [false, false, false, false, true]);
    }

    #[test]
    fn verdicts_need_intervals_beyond_the_margin() {
        use gush_lab::stats::{MARGIN, Verdict, ratio};
        let (slow, fast) = ([2.0, 2.1, 1.9, 2.0, 2.0], [3.0, 3.1, 3.0, 2.9, 3.0]);
        let verdict = |of, to| Verdict::of(ratio(of, to).as_ref(), MARGIN);
        assert_eq!(verdict(&fast, &slow), Verdict::Faster);
        assert_eq!(verdict(&slow, &fast), Verdict::Slower);
        assert_eq!(verdict(&slow, &slow), Verdict::CannotTell);
    }
}

mod store {
    #[test]
    fn ids_begin_with_the_time() -> Result<(), Box<dyn std::error::Error>> {
        let id = gush_lab::store::new_id("2026-11-21T14:43:55Z".parse()?);
        assert!(id.starts_with("20261121-144355-") && id.len() == 20);
        Ok(())
    }
}

mod table {
    #[test]
    fn a_bar_is_proportional() {
        assert_eq!(gush_lab::table::bar(1.0, 2.0).chars().count(), 15);
    }
}

mod warnings {
    #[test]
    fn a_saving_governor_is_a_warning() {
        use gush_lab::{model::Machine, warnings::of_settings};
        let facts = [("governor".to_owned(), "powersave".to_owned())].into();
        let saving = Machine { facts, ..Machine::default() };
        assert!(of_settings(&saving).iter().any(|warning| warning.remedy.contains("cpupower")));
    }

    #[test]
    fn load_of_others_is_a_warning() {
        use gush_lab::{probe::Counters, warnings::of_load};
        let before = Counters::default();
        let after = Counters { busy_s: 5.0, own_s: 1.0, total_s: 10.0, ..Counters::default() };
        assert!(of_load(&before, &after)[0].fact.contains("40 %"));
    }

    #[test]
    fn heat_is_a_warning() {
        use gush_lab::{probe::Counters, warnings::of_slowing};
        let hot = Counters { hot: 3, ..Counters::default() };
        assert!(of_slowing(&Counters::default(), &hot)[0].fact.contains("too hot"));
    }

    #[test]
    fn few_rounds_and_outliers_are_warnings() {
        use gush_lab::{
            model::{Measured, Sample},
            warnings::of_samples,
        };
        let sample = |round, gib_per_s| Sample {
            suite: "pipe".into(),
            case: "write-read".into(),
            round,
            measured: Measured { gib_per_s: Some(gib_per_s), ..Measured::default() },
        };
        assert!(of_samples(&[sample(1, 2.0)])[0].remedy.contains("--rounds"));
        let odd: Vec<_> =
            [2.0, 2.1, 1.9, 2.0, 9.0].into_iter().zip(1..).map(|(s, r)| sample(r, s)).collect();
        assert!(of_samples(&odd)[0].fact.contains("pipe write-read (round 5)"));
    }
}
