package interop

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

var _ = add("remote/forward", remoteForward)

// remoteForward forwards a topic of a cluster in this process, with mirrors that end in the middle.
func remoteForward(t *testing.T, k target) {
	local, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, local.Close()) }()
	far, name, n := connect(t, k), fresh("forward"), 6000
	require.NoError(t, local.CreateTopic(within(t), name, topic.Config{Partitions: 3}))
	p, err := producer.New(local, producer.Config{})
	require.NoError(t, err)
	var rs []record.Record
	for i := range n {
		rs = append(rs, record.String(name, fmt.Sprint("key ", i%50), fmt.Sprint(i)))
	}
	_, err = p.Send(within(t), rs...)
	require.NoError(t, err)
	require.NoError(t, p.Close())

	cfg := mirror.ForwardConfig{ID: name, Topics: []string{name}, RecordsPerSecond: 300}
	begin := func() *mirror.Forward {
		f, err := mirror.NewForward(local, far, cfg)
		require.NoError(t, err)
		return f
	}
	for range 3 {
		f := begin()
		ctx, cancel := context.WithCancel(within(t))
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		eventually(t, "records are forwarded", func() bool { return f.Stats().Records > 0 })
		cancel()
		require.NoError(t, <-ended)
	}
	// The first of two mirrors ends.
	first := begin()
	cfg.RecordsPerSecond = 0
	second := begin()
	ended := make(chan error, 1)
	go func() { ended <- first.Run(within(t)) }()
	eventually(t, "records are forwarded", func() bool { return first.Stats().Records > 0 })
	require.NoError(t, second.Drain(within(t)))
	require.Greater(t, second.Stats().Records, int64(n/2), "most of it is left for the last one")
	require.ErrorIs(t, <-ended, mirror.ErrFenced)

	want := valuesOf(t, local, name)
	var got map[int32][]string
	eventually(t, "readers see all of it", func() bool {
		got = valuesOf(t, far, name)
		return len(got[0])+len(got[1])+len(got[2]) >= n
	})
	require.Equal(t, want, got)
}

// valuesOf returns the values of a topic by partition, in order.
func valuesOf(t *testing.T, b consumer.LogBackend, name string) map[int32][]string {
	t.Helper()
	got := map[int32][]string{}
	for r, err := range consumer.Read(within(t), b, consumer.ReadConfig{Topic: name}) {
		require.NoError(t, err)
		got[r.Partition] = append(got[r.Partition], string(r.Value))
	}
	return got
}
