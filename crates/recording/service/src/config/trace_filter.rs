//! What of the trace is kept at read-back (upstream: message_filter_config.cc).

use std::sync::Arc;

use ferretto_protos::fields::trace::PACKET;
use ferretto_protos::trace_config::TraceFilter;
use ferretto_protos::trace_config::trace_filter::{StringFilterChain, StringFilterRule};
use ferretto_trace_filter::{Bytecode, MessageFilter, Policy, Rule, StringFilter};

use super::error::{ConfigError, RuleProblem};

/// A filter for packets. Programs begin at `Trace`, so that they can be made for whole traces.
pub(super) fn parse_trace_filter(filter: &TraceFilter) -> Result<Arc<MessageFilter>, ConfigError> {
    let mut strings = StringFilter::default();
    for (field, chain) in [
        ("string_filter_chain", &filter.string_filter_chain),
        ("string_filter_chain_v54", &filter.string_filter_chain_v54),
    ] {
        if let Some(chain) = chain {
            add_rules(field, chain, &mut strings)?;
        }
    }
    let (field, program) = match filter.bytecode_v2() {
        [] => ("bytecode", filter.bytecode()),
        program => ("bytecode_v2", program),
    };
    let program = Bytecode::parse(program, filter.bytecode_overlay_v54())
        .map_err(|error| ConfigError::FilterProgram { field, error })?;
    let filter = MessageFilter::new(program, strings).with_root(&[PACKET])?;
    Ok(Arc::new(filter))
}

/// Rules of the same name replace those of an earlier chain.
fn add_rules(
    field: &'static str,
    chain: &StringFilterChain,
    strings: &mut StringFilter,
) -> Result<(), ConfigError> {
    for (index, rule) in chain.rules.iter().enumerate() {
        let in_rule = |problem| ConfigError::FilterRule { field, index, problem };
        add_rule(rule, strings).map_err(in_rule)?;
    }
    Ok(())
}

fn add_rule(rule: &StringFilterRule, strings: &mut StringFilter) -> Result<(), RuleProblem> {
    let number = rule.policy.unwrap_or_default();
    let policy = Policy::from_number(number).ok_or(RuleProblem::Policy(number))?;
    // A negative number becomes one that is far too great.
    let semantic_types: Vec<u32> = rule.semantic_type.iter().map(|number| *number as u32).collect();
    strings.add(&Rule {
        policy,
        pattern: rule.regex_pattern(),
        atrace_payload_starts_with: rule.atrace_payload_starts_with(),
        name: rule.name(),
        semantic_types: &semantic_types,
    })?;
    Ok(())
}
