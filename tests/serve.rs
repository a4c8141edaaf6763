//! `airgate serve` as one piece, over TLS: what it does with bad input, and with files that change under it.

#[cfg(test)]
mod serve {
    pub mod bad_input;
    pub mod files;
    pub mod running;
}
