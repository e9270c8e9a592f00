package x500

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func decodeHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// names returns distinguished names and the texts that Java prints for them.
func names(t testing.TB) (ders [][]byte, texts []string) {
	data, err := os.ReadFile("testdata/names.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "#") {
			der, text, _ := strings.Cut(line, " ")
			ders, texts = append(ders, decodeHex(t, der)), append(texts, string(decodeHex(t, text)))
		}
	}
	require.Greater(t, len(ders), 20)
	return ders, texts
}

func TestNamesAreThoseOfJava(t *testing.T) {
	ders, texts := names(t)
	for i, der := range ders {
		got, err := Name(der)
		require.NoError(t, err, "%x", der)
		require.Equal(t, texts[i], got, "%x", der)
	}
}

func TestWhatIsNoNameIsRefused(t *testing.T) {
	ders, _ := names(t)
	for _, der := range ders {
		for n := range der {
			_, err := Name(der[:n])
			require.ErrorIs(t, err, ErrInvalid, "%x", der[:n])
		}
		_, err := Name(append(der[:len(der):len(der)], 0))
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, err := Name(decodeHex(t, "30023100"))
	require.ErrorIs(t, err, ErrInvalid, "an empty relative name")
}

func FuzzName(f *testing.F) {
	ders, _ := names(f)
	for _, der := range ders {
		f.Add(der)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		name, err := Name(der)
		if err != nil {
			require.Empty(t, name)
			return
		}
		require.LessOrEqual(t, len(name), 10*len(der)+100)
	})
}
