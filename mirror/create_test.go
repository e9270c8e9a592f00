package mirror_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/topic"
)

// A slowTarget takes 650 ms to create a topic.
type slowTarget struct{ mirror.Target }

func (s slowTarget) EnsureTopic(ctx context.Context, name string, cfg topic.Config) error {
	time.Sleep(650 * time.Millisecond)
	return s.Target.EnsureTopic(ctx, name, cfg)
}

// A client also looks for half a second for topics that it does not find.
func TestManyTopicsAreCreatedAtTheTargetInAFewSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var names []string
		for i := range 40 {
			names = append(names, fmt.Sprint("topic-", i))
			require.NoError(t, w.local.CreateTopic(t.Context(), names[i], topic.Config{Partitions: 1 + i%3, Properties: map[string]string{"retention.ms": fmt.Sprint(1_000_000 + i)}}))
		}
		var lines bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelInfo}))
		began := time.Now()
		far := w.dial()
		require.NoError(t, forward(t, w.local, slowTarget{far}, mirror.ForwardConfig{Topics: names, Logger: logger}).Drain(t.Context()))
		require.Less(t, time.Since(began), 5*time.Second)
		require.Contains(t, lines.String(), "creating topics at the target")
		for i, name := range names {
			info, err := far.Topic(t.Context(), name)
			require.NoError(t, err)
			require.Len(t, info.Partitions, 1+i%3)
			kept, _ := info.Settings.Value("retention.ms")
			require.Equal(t, fmt.Sprint(1_000_000+i), kept)
		}
	})
}
