package record

import "hash/crc32"

// sumBytes is how many bytes of records a builder that sums early has come together before it sums
// them: few enough to be in the nearest caches still.
const sumBytes = 8 << 10

// crcPowers holds x^(8*2^i) modulo the polynomial of CRC-32C, which stands for 2^i zero bytes.
// Polynomials are reflected here, as in hash/crc32: the highest bit is the coefficient of x^0.
var crcPowers = func() (powers [31]uint32) {
	power := uint32(1) << (31 - 8) // x^8
	for i := range powers {
		powers[i] = power
		power = mulCRC(power, power)
	}
	return powers
}()

// combineCRC returns the CRC-32C of two pieces one behind the other, of which the second one has n
// bytes, by those of each. It takes about a microsecond. See crc32_combine of zlib.
func combineCRC(first, second uint32, n int) uint32 {
	for i := 0; n > 0; i, n = i+1, n>>1 {
		if n&1 != 0 {
			first = mulCRC(crcPowers[i], first)
		}
	}
	return first ^ second
}

// mulCRC multiplies two polynomials modulo that of CRC-32C.
func mulCRC(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a>>31 != 0 {
			product ^= b
		}
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return product
}
