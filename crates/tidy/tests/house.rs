//! The house rules, applied to the whole repository.

use cellar_tidy::{
    Finding, Tree, anchors, atomics, described, documents, figures, language, layers, page,
    programs, retired, sleeps, supply, tiers, troubleshooting,
};

fn assert_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} findings:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

#[test]
fn every_rust_file_keeps_the_page_rules() {
    let tree = Tree::of_this_repository();
    assert!(tree.rust().count() > 10, "the walk finds the sources");
    assert_none(&tree.rust().flat_map(page::check).collect::<Vec<_>>());
}

#[test]
fn modules_and_crates_depend_only_downwards() {
    assert_none(&layers::check(&Tree::of_this_repository()));
}

#[test]
fn documents_lead_somewhere_and_mention_nothing_forbidden() {
    assert_none(&documents::check(&Tree::of_this_repository()));
}

#[test]
fn links_lead_to_headings_and_the_site_has_all_pages() {
    assert_none(&anchors::check(&Tree::of_this_repository()));
}

#[test]
fn figures_beside_a_link_to_a_measurement_stand_on_its_page() {
    assert_none(&figures::check(&Tree::of_this_repository()));
}

#[test]
fn pages_that_describe_the_code_name_what_is_there() {
    assert_none(&described::check(&Tree::of_this_repository()));
}

#[test]
fn errors_in_the_guide_are_those_of_the_programs() {
    assert_none(&troubleshooting::check(&Tree::of_this_repository()));
}

#[test]
fn names_that_the_field_has_a_word_for_do_not_come_back() {
    assert_none(&retired::check(&Tree::of_this_repository()));
}

#[test]
fn readme_guide_and_help_use_the_terms_of_the_field() {
    assert_none(&language::check(&Tree::of_this_repository()));
}

#[test]
fn what_it_is_built_from_is_known_by_its_version() {
    assert_none(&supply::check(&Tree::of_this_repository()));
}

#[test]
fn what_an_atomic_orders_stands_beside_it() {
    assert_none(&atomics::check(&Tree::of_this_repository()));
}

#[test]
fn no_file_of_tests_is_left_out() {
    assert_none(&programs::check(&Tree::of_this_repository()));
}

#[test]
fn a_test_waits_for_an_event_or_says_why_a_time_has_to_pass() {
    assert_none(&sleeps::check(&Tree::of_this_repository()));
}

#[test]
fn each_file_with_tests_is_in_a_tier() {
    assert_none(&tiers::check(&Tree::of_this_repository()));
}
