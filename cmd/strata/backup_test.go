package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func TestBackupAndRestoreBringAClusterBack(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := strata.Open(strata.Config{Dir: "data"})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	_, err = p.Send(t.Context(), record.String("orders", "k", "a"), record.String("orders", "k", "b"))
	require.NoError(t, err)
	require.NoError(t, p.Close())
	r := strataRun(t, "backup", "data", "saved")
	require.Equal(t, exitFailed, r.code, "it is open")
	require.Contains(t, r.err, "in use")
	require.NoError(t, c.Close())

	r = strataRun(t, "backup", "data", "saved")
	require.Equal(t, exitOK, r.code, r.err)
	require.Equal(t, "backup: data copied to saved\n", r.out)
	require.Equal(t, exitFailed, strataRun(t, "backup", "data", "saved").code, "it is not empty")
	require.Equal(t, exitMisuse, strataRun(t, "backup", "nothing", "other").code)
	require.NoError(t, os.RemoveAll("data"))

	r = strataRun(t, "restore", "saved", "data", "--json")
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, `{"type":"restore","from":"saved","to":"data"}`)
	c, err = strata.Open(strata.Config{Dir: "data"})
	require.NoError(t, err)
	var got []string
	for r, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "orders"}) {
		require.NoError(t, err)
		got = append(got, string(r.Value))
	}
	require.Equal(t, []string{"a", "b"}, got)
	require.NoError(t, c.Close())

	require.NoError(t, os.Rename("saved/broker-1/orders-0", "orders-0"))
	for _, args := range [][]string{{"verify", "saved"}, {"restore", "saved", "other"}} {
		r = strataRun(t, args...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.out, "DAMAGE saved/broker-1/orders-0: ")
		require.Contains(t, r.out, "offsets 0 to 2")
		require.NoDirExists(t, "other")
	}
	require.NoError(t, os.Rename("orders-0", "saved/broker-1/orders-0"))

	flip(t, "saved/broker-1/orders-0/00000000000000000000.log", 70)
	r = strataRun(t, "restore", "saved", "other")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "DAMAGE")
	require.NoDirExists(t, "other", "nothing is copied")
}
