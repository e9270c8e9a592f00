package systest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A process with two members is killed. In the next process a member gets all partitions at once.
// It does not wait for the sessions of the dead members, which last 45 s.
func TestGroupReadsOnAtOnceAfterItsProcessWasKilled(t *testing.T) {
	for name, cfg := range map[string]consumer.Config{
		"eager":       {Assignors: []assignor.Assignor{assignor.Range()}},
		"cooperative": {},
		"static":      {InstanceID: "worker-1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.Group, cfg.Topics, cfg.Commit = "billing", []string{"orders"}, consumer.CommitManual
				fs := vfs.Mem()
				first, err := strata.Open(strata.Config{Dir: "data", FS: fs})
				require.NoError(t, err)
				require.NoError(t, first.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 4}))
				member, err := consumer.New(first, cfg)
				require.NoError(t, err)
				other := cfg
				other.InstanceID = ""
				second, err := consumer.New(first, other)
				require.NoError(t, err)
				for _, c := range []*consumer.Consumer{member, second} {
					go func() {
						for range c.Records(t.Context()) {
						}
					}()
				}
				_, err = first.WaitGroup(t.Context(), "billing", group.StableWith(2))
				require.NoError(t, err)
				p, err := producer.New(first, producer.Config{})
				require.NoError(t, err)
				sendTo(t, p, 0, "a", "b")
				require.NoError(t, p.Close())

				next, err := strata.Open(strata.Config{Dir: "data", FS: fs.Kill()})
				require.NoError(t, err)
				begin := time.Now()
				reader, err := consumer.New(next, cfg)
				require.NoError(t, err)
				var got []string
				for r, err := range reader.Records(t.Context()) {
					require.NoError(t, err)
					if got = append(got, string(r.Value)); len(got) == 2 {
						break
					}
				}
				require.Equal(t, []string{"a", "b"}, got)
				require.Less(t, time.Since(begin), time.Second)
				require.NoError(t, reader.Close())
				require.NoError(t, next.Close())
				require.NoError(t, member.Close())
				require.NoError(t, second.Close())
				require.NoError(t, first.Close())
			})
		})
	}
}
