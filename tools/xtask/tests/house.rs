//! Runs every check over the real tree. A failure says what is wrong, where, and what to do.

use xtask::{
    Finding, Tree, anatomy, circles, codes, dependencies, discipline, examples, fuzzing, generated,
    imports, links, lints, purity, rooms, shape, sides, steps, verdict, vocabulary, wording,
};

fn run(check: fn(&Tree) -> Vec<Finding>) -> Result<(), String> {
    let tree = Tree::read().map_err(|error| format!("{error:#}"))?;
    // Guards the guard: a check over no files finds nothing.
    if !tree.contains("core/base/src/lib.rs") || !tree.contains("README.md") {
        return Err(format!("{} files: this is not the whole tree", tree.files.len()));
    }
    match verdict(&check(&tree)) {
        Ok(()) => Ok(()),
        Err(text) => panic!("{text}"),
    }
}

macro_rules! house {
    ($($name:ident => $check:expr;)+) => {
        $(#[test] fn $name() -> Result<(), String> { run($check) })+
    };
}

house! {
    circles_of_imports_are_those_left => circles::check;
    crates_under_the_workspace_lints => lints::check;
    dependencies_are_justified_and_used => dependencies::check;
    examples_in_documentation_run => examples::check;
    files_are_declared => shape::check_orphans;
    files_are_short => shape::check_lengths;
    fuzz_targets_have_corpora_that_replay => fuzzing::check;
    generated_pages_are_fresh => generated::check;
    imports_go_down => imports::check;
    links_lead_somewhere => links::check;
    metrics_stand_in_tables => generated::check_metrics;
    modules_say_what_they_are => shape::check_openings;
    no_machine_is_named => wording::check;
    nothing_is_skipped_or_put_off => discipline::check;
    protocols_have_one_anatomy => anatomy::check;
    protocols_look_up_what_codes_mean => codes::check;
    pure_code_is_pure => purity::check;
    rooms_have_walls => rooms::check;
    sides_of_a_shard_know_what_they_may => sides::check;
    the_life_of_a_message_is_told_as_it_is => steps::check;
    words_are_those_of_the_field => vocabulary::check;
}
