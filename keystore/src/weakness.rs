//! What arithmetic shows of an RSA modulus alone: whether somebody without the private key can find it.
//!
//! The same few questions serve the judge of our own keys, the public halves of a ring document, and the reader of
//! other issuers' key sets: whoever can factor a modulus can sign in its owner's name. Each is answered in bounded
//! time for any modulus of a size that is taken; sizes are judged before. What only knowledge shows (a leaked key)
//! is [`crate::material`]'s to know.
//!
//! All integers are big-endian octets. A modulus is public, so the arithmetic may take time that depends on it.

use std::sync::LazyLock;

use crypto_bigint::{BoxedUint, ConcatenatingSquare as _, Limb, NonZero, Odd, Reciprocal, Word};
use crypto_primes::hazmat::{MillerRabin, Primality};

/// Why a modulus is no secret keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Weakness {
    /// A prime below 100,000 divides it.
    #[error("the RSA modulus has the small factor {prime}")]
    SmallFactor {
        /// The smallest.
        prime: u32,
    },
    /// Fermat's method finds its factors at once: they are equal, or close to each other.
    #[error("the RSA modulus is the product of two primes that are too close to each other")]
    ClosePrimes,
    /// It was made by the broken Infineon library (CVE-2017-15361).
    #[error("the RSA modulus has the fingerprint of a broken generator (ROCA, CVE-2017-15361)")]
    Roca,
    /// Its octets are mostly nought: it is a polynomial of few small terms, which factors as one.
    #[error("the RSA modulus has a pattern of zero octets, which no random primes make")]
    Pattern,
    /// It is a prime itself, so that everybody can compute the private exponent.
    #[error("the RSA modulus is a prime, not a product of two")]
    Prime,
}

/// The weakness of a modulus of 2048 to 8192 bits that is cheap to find (well under a millisecond); `None` does not
/// say that it is strong.
pub(crate) fn of_modulus(n: &[u8]) -> Option<Weakness> {
    if is_patterned(n) {
        return Some(Weakness::Pattern);
    }
    let modulus = BoxedUint::from_be_slice_vartime(n);
    let mut roca = true;
    for batch in BATCHES.iter() {
        let residue = modulus.rem_limb_with_reciprocal(&batch.reciprocal).0;
        for &prime in &batch.primes {
            let residue = u32::try_from(residue % Word::from(prime)).unwrap_or(0);
            if residue == 0 {
                return Some(Weakness::SmallFactor { prime });
            }
            roca &= prime > ROCA_LAST_PRIME || prime == 2 || is_power_of_65537(residue, prime);
        }
    }
    if roca {
        return Some(Weakness::Roca);
    }
    has_close_factors(&modulus).then_some(Weakness::ClosePrimes)
}

/// The weakness of a modulus that is costly to find (8 ms for 2048 bits, eight times as much for twice the size),
/// and is none where the two factors are at hand: that it is a prime. Moduli above 4096 bits are let pass, so that
/// a set of hostile keys does not cost minutes; such a key endangers its own issuer alone.
pub(crate) fn of_unfactored_modulus(n: &[u8]) -> Option<Weakness> {
    if n.len() > LONGEST_PRIME_TEST {
        return None;
    }
    let odd: Option<Odd<BoxedUint>> = Odd::new(BoxedUint::from_be_slice_vartime(n)).into_option();
    let passes = |odd| MillerRabin::new(odd).test_base_two() != Primality::Composite;
    odd.is_some_and(passes).then_some(Weakness::Prime)
}

/// Of random octets one in 256 is nought; an eighth of 256 octets is so with a chance of 2^-119.
fn is_patterned(n: &[u8]) -> bool {
    n.iter().filter(|octet| **octet == 0).count() >= n.len() / 8
}

/// The fingerprint of Nemec et al., "The Return of Coppersmith's Attack" (CCS 2017), section 3: the primes of that
/// library are powers of 65537 modulo every small prime, and so is their product.
fn is_power_of_65537(residue: u32, prime: u32) -> bool {
    let mut power = 1;
    loop {
        if power == residue {
            return true;
        }
        power = power * (65537 % prime) % prime;
        if power == 1 {
            return false;
        }
    }
}

/// Fermat: n = a² - b² with a just above the root of n. Finds factors that differ in little more than their lower
/// half, whatever made them so.
fn has_close_factors(n: &BoxedUint) -> bool {
    let root = n.floor_sqrt_vartime();
    let mut residues = FILTERS.map(|filter| Filter::new(filter, &root, n));
    let mut a = root;
    for _ in 0..=FERMAT_ROUNDS {
        // A square is one modulo everything: nearly every candidate falls here, without arithmetic on large numbers.
        if residues.iter().all(Filter::passes) && is_difference_of_squares(&a, n) {
            return true;
        }
        a += BoxedUint::one();
        residues.iter_mut().for_each(Filter::advance);
    }
    false
}

fn is_difference_of_squares(a: &BoxedUint, n: &BoxedUint) -> bool {
    let square = a.concatenating_square();
    square >= *n && square.wrapping_sub(n).checked_sqrt_vartime().is_some()
}

/// a and a² - n modulo a small number, as a counts up.
#[derive(Clone, Copy)]
struct Filter {
    modulus: u32,
    a: u32,
    difference: u32,
    squares: u128,
}

impl Filter {
    fn new(modulus: u32, a: &BoxedUint, n: &BoxedUint) -> Self {
        let divisor = NonZero::new(Limb::from(modulus)).into_option();
        let residue = |value: &BoxedUint| {
            divisor.map_or(0, |divisor| u32::try_from(value.rem_limb(divisor).0).unwrap_or(0))
        };
        let a = residue(a);
        let difference = (a * a + modulus - residue(n)) % modulus;
        let squares = (0..modulus).fold(0, |squares, root| squares | 1 << (root * root % modulus));
        Self { modulus, a, difference, squares }
    }

    fn passes(&self) -> bool {
        self.squares >> self.difference & 1 == 1
    }

    /// (a + 1)² - n is a² - n + 2a + 1.
    fn advance(&mut self) {
        self.difference = (self.difference + 2 * self.a + 1) % self.modulus;
        self.a = (self.a + 1) % self.modulus;
    }
}

/// Primes whose product fits a machine word: one pass over the modulus tells of all of them.
struct Batch {
    reciprocal: Reciprocal,
    primes: Vec<u32>,
}

static BATCHES: LazyLock<Vec<Batch>> = LazyLock::new(|| {
    let mut batches = Vec::new();
    let mut product: Word = 1;
    let mut primes = Vec::new();
    for prime in small_primes() {
        match product.checked_mul(Word::from(prime)) {
            Some(larger) => product = larger,
            None => {
                batches.extend(batch(product, std::mem::take(&mut primes)));
                product = Word::from(prime);
            }
        }
        primes.push(prime);
    }
    batches.extend(batch(product, primes));
    batches
});

fn batch(product: Word, primes: Vec<u32>) -> Option<Batch> {
    let divisor = NonZero::new(Limb(product)).into_option()?;
    Some(Batch { reciprocal: Reciprocal::new(divisor), primes })
}

/// The sieve of Eratosthenes.
fn small_primes() -> Vec<u32> {
    let mut composite = vec![false; SMALL_PRIMES_BELOW];
    let mut primes = Vec::new();
    for number in 2..SMALL_PRIMES_BELOW {
        if composite[number] {
            continue;
        }
        primes.extend(u32::try_from(number));
        for multiple in (number * number..SMALL_PRIMES_BELOW).step_by(number) {
            composite[multiple] = true;
        }
    }
    primes
}

/// Trial division up to here is cheap; a factor above it takes an attacker's effort to find, and no generator at all
/// to make by accident.
const SMALL_PRIMES_BELOW: usize = 100_000;

/// 4096 bits, the longest that are generated here.
const LONGEST_PRIME_TEST: usize = 512;

/// The last prime of the published fingerprint.
const ROCA_LAST_PRIME: u32 = 167;

/// Keys seen in the wild fall within a hundred rounds.
const FERMAT_ROUNDS: usize = 1000;

/// Moduli that few residues are squares of; together they let one candidate in 1,600 pass. Below 128, for the mask.
const FILTERS: [u32; 8] = [64, 63, 65, 11, 17, 19, 23, 31];
