package transcript

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScriptIsWhatItWasIfTheMachineDoesWhatItDid(t *testing.T) {
	const script = "# counts\n> add 2 note=x\n  2 x\n\n> add 3\n  5 \n"
	counter := func(by int) (out *Output, command func([]string)) {
		out, sum := new(Output), 0
		return out, func(words []string) {
			require.Equal(t, "add", words[0])
			pos, opts := Words(words[1:])
			sum += int(pos[0][0]-'0') * by
			out.Printf("%d %s", sum, opts["note"])
		}
	}
	out, command := counter(1)
	require.Equal(t, script, string(play(script, out, command)))
	out, command = counter(2)
	got := string(play(script, out, command))
	require.Equal(t, "# counts\n> add 2 note=x\n  4 x\n\n> add 3\n  10 \n", got)
	require.Equal(t, "line 3\nwant:\n# counts\n> add 2 note=x\n  2 x\n\n> add 3\n  5 \ngot:\n# counts\n> add 2 note=x\n  4 x\n\n> add 3\n  10 ", difference(script, got))
}
