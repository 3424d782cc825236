#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| postrider_fuzz::x400_ber::run(data));

#[cfg(not(fuzzing))]
fn main() {}
