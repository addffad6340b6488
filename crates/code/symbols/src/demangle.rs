//! Names of functions as people write them.

/// Names longer than this stay as they are: parsing what nests deeply takes long, and nobody reads it.
const MAX_NAME_BYTES: usize = 4096;
/// How deep a C++ name may nest.
const MAX_DEPTH: u32 = 96;

/// `name` as its language has it, without the hash that Rust puts behind it and without the parameters of C++; itself if it is none of
/// these.
///
/// ```
/// use ferretto_symbols::demangle;
///
/// assert_eq!(demangle("_ZN3std2io5stdio6_print17h0123456789abcdefE"), "std::io::stdio::_print");
/// assert_eq!(demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"), "std::vector<int, std::allocator<int> >::push_back");
/// assert_eq!(demangle("main"), "main");
/// ```
#[must_use]
pub fn demangle(name: &str) -> String {
    if name.len() > MAX_NAME_BYTES {
        return name.to_owned();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    cpp(name).unwrap_or_else(|| name.to_owned())
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let options = cpp_demangle::ParseOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = cpp_demangle::Symbol::new_with_options(name, &options).ok()?;
    let options =
        cpp_demangle::DemangleOptions::default().recursion_limit(MAX_DEPTH).no_params().no_return_type();
    symbol.demangle_with_options(&options).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_mangled_in_no_way_that_is_known_stays_as_it_is() {
        let long = format!("_Z{}", "N1a".repeat(3000));
        for name in ["", "_Z", "_R", "_ZN", "__libc_start_main", "do_syscall_64", long.as_str()] {
            assert_eq!(demangle(name), name);
        }
        assert_eq!(demangle("_RNvCs4fqI2P2rA04_5bench4main"), "bench::main");
    }

    proptest! {
        #[test]
        fn whatever_a_name_is_it_ends(name in "_(Z|R)[A-Za-z0-9_]{0,300}") {
            let _ = demangle(&name);
        }
    }
}
