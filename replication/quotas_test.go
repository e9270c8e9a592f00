package replication

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func setQuota(t *testing.T, c *Cluster, user string, k QuotaKey, v QuotaValue) {
	t.Helper()
	v.Key = k
	refused, err := c.AlterClientQuotas(t.Context(), QuotaChange{Entity: QuotaEntity{User: QuotaName{Name: user}}, Changes: []QuotaValue{v}})
	require.NoError(t, err)
	require.Empty(t, refused)
}

func TestQuotasAreThereAfterKillAndAfterPowerLoss(t *testing.T) {
	fsys := vfs.Mem()
	c := openWith(t, Config{FS: fsys, Dir: "data", Brokers: 3})
	lost := vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}
	check := func(want ...float64) {
		t.Helper()
		quotas := func(c *Cluster) (got []float64) {
			for q := range c.ClientQuotas().All() {
				got = append(got, q.Value)
			}
			return got
		}
		require.Equal(t, want, quotas(c))
		for _, disk := range []vfs.FS{fsys.Kill(), fsys.CrashWith(lost)} {
			again, err := Open(Config{FS: disk, Dir: "data"})
			require.NoError(t, err)
			require.Equal(t, slices.Collect(c.ClientQuotas().All()), slices.Collect(again.ClientQuotas().All()))
			require.NoError(t, again.Close())
		}
	}
	require.Nil(t, c.ClientQuotas())
	setQuota(t, c, "alice", ProducerByteRate, QuotaValue{Value: 1000})
	setQuota(t, c, "bob", RequestPercentage, QuotaValue{Value: 12.5})
	check(1000, 12.5)
	same := c.ClientQuotas()
	setQuota(t, c, "bob", RequestPercentage, QuotaValue{Value: 12.5})
	create(t, c, "orders", 1)
	require.Same(t, same, c.ClientQuotas(), "nothing was changed")
	setQuota(t, c, "alice", ProducerByteRate, QuotaValue{Remove: true})
	check(12.5)
	setQuota(t, c, "bob", RequestPercentage, QuotaValue{Remove: true})
	require.Nil(t, c.ClientQuotas())
	check()
}

func TestSnapshotsKeepQuotas(t *testing.T) {
	fsys := vfs.Mem()
	c, err := Open(Config{FS: fsys, Dir: "data", metaSlack: -1})
	require.NoError(t, err)
	for i := range 100 {
		setQuota(t, c, "alice", ProducerByteRate, QuotaValue{Value: float64(1 + i)})
	}
	require.NoError(t, c.Close())
	c, err = Open(Config{FS: fsys, Dir: "data"})
	require.NoError(t, err)
	v, ok := c.ClientQuotas().Get(QuotaEntity{User: QuotaName{Name: "alice"}}, ProducerByteRate)
	require.True(t, ok)
	require.EqualValues(t, 100, v)
	require.NoError(t, c.Close())
}

func TestQuotasThatCannotBeAreRefused(t *testing.T) {
	c := open(t, vfs.Mem())
	bad := QuotaEntity{User: QuotaName{Name: "alice"}, IP: QuotaName{Default: true}}
	good := QuotaEntity{User: QuotaName{Default: true}}
	one := []QuotaValue{{Key: ProducerByteRate, Value: 1}}
	for _, change := range []QuotaChange{
		{Entity: bad, Changes: one}, {Changes: one}, {Entity: good, Changes: []QuotaValue{{Key: "x", Value: 1}}},
		{Entity: good, Changes: []QuotaValue{{Key: ProducerByteRate}}}, {Entity: good, Changes: append(one, one...)},
	} {
		refused, err := c.AlterClientQuotas(t.Context(), change)
		require.NoError(t, err)
		require.ErrorIs(t, refused[change.Entity], ErrInvalidQuota)
		checked, err := c.CheckClientQuotas(change)
		require.NoError(t, err)
		require.Equal(t, refused, checked)
	}
	require.Nil(t, c.ClientQuotas())
	many := make([]QuotaChange, 10_001)
	for i := range many {
		many[i] = QuotaChange{Entity: QuotaEntity{User: QuotaName{Name: string(rune('a' + i))}}, Changes: one}
	}
	_, err := c.AlterClientQuotas(t.Context(), many...)
	require.ErrorIs(t, err, ErrPolicyViolation)
	_, err = c.CheckClientQuotas(many...)
	require.ErrorIs(t, err, ErrPolicyViolation)
}
