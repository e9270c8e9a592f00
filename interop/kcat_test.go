package interop

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func kcat(t *testing.T, k target, stdin string, args ...string) string {
	t.Helper()
	need(t, "kcat")
	cmd := exec.CommandContext(within(t), "kcat", append([]string{"-b", k.addr}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	return run(t, cmd)
}

var _ = add("kcat/produce-and-consume", func(t *testing.T, k target) {
	need(t, "kcat")
	topic := newTopic(t, k, 1)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		kcat(t, k, codec+"-key:"+codec+"-value\n", "-P", "-t", topic, "-K:", "-z", codec, "-H", "codec="+codec)
	}
	out := kcat(t, k, "", "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %k %s %h\n")
	require.Equal(t, "0 none-key none-value codec=none\n1 gzip-key gzip-value codec=gzip\n2 snappy-key snappy-value codec=snappy\n"+
		"3 lz4-key lz4-value codec=lz4\n4 zstd-key zstd-value codec=zstd\n", out)
	last := kcat(t, k, "", "-C", "-t", topic, "-o", "-1", "-e", "-q", "-f", "%s")
	require.Equal(t, "zstd-value", last)
})

var _ = add("kcat/metadata", func(t *testing.T, k target) {
	need(t, "kcat")
	topic := newTopic(t, k, 3)
	var md struct {
		Brokers []struct{ Name string }
		Topics  []struct {
			Topic      string
			Partitions []struct{ Leader int }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(kcat(t, k, "", "-L", "-J", "-t", topic)), &md))
	require.True(t, slices.ContainsFunc(md.Brokers, func(b struct{ Name string }) bool { return b.Name == k.addr }), "%v", md.Brokers)
	require.Len(t, md.Topics[0].Partitions, 3)
})

var _ = add("kcat/offsets-by-time", func(t *testing.T, k target) {
	need(t, "kcat")
	topic := newTopic(t, k, 1)
	seed(t, k, topic, 5)
	out := kcat(t, k, "", "-Q", "-t", topic+":0:1")
	require.Contains(t, out, "[0] offset 0")
})

var _ = add("kcat/group", func(t *testing.T, k target) {
	need(t, "kcat")
	topic, group := newTopic(t, k, 2), fresh("group")
	seed(t, k, topic, 5)
	out := kcat(t, k, "", "-G", group, "-c", "5", "-q", "-X", "auto.offset.reset=earliest", "-f", "%s\n", topic)
	require.Equal(t, strings.Join(values(5), "\n")+"\n", out)
})
