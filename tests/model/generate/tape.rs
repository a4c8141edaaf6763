//! Bytes that are read as choices; when they run out, every choice is the first.

pub struct Tape {
    bytes: std::vec::IntoIter<u8>,
}

impl Tape {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into_iter() }
    }

    /// 0 to 99.
    pub fn percent(&mut self) -> u8 {
        let byte = u16::from(self.bytes.next().unwrap_or(0));
        u8::try_from(byte * 100 / 256).unwrap()
    }

    /// Whether something rare happens.
    pub fn chance(&mut self, percent: u8) -> bool {
        self.percent() >= 100 - percent
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.bytes.next().unwrap_or(0)) * limit / 256
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}
