package replication

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/vfs"
)

func allow(name string, o acl.Operation) acl.Entry {
	return acl.Entry{ResourceType: acl.Topic, ResourceName: name, PatternType: acl.Literal, Principal: "User:alice", Host: "*", Operation: o, Permission: acl.Allow}
}

func TestACLsAreThereAfterKillAndAfterPowerLoss(t *testing.T) {
	fsys := vfs.Mem()
	c := openWith(t, Config{FS: fsys, Dir: "data", Brokers: 3})
	lost := vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}
	check := func(want ...acl.Entry) {
		t.Helper()
		require.ElementsMatch(t, want, c.ACLs().Matching(acl.Everything()))
		for _, disk := range []vfs.FS{fsys.Kill(), fsys.CrashWith(lost)} {
			again, err := Open(Config{FS: disk, Dir: "data"})
			require.NoError(t, err)
			require.Equal(t, c.ACLs().Matching(acl.Everything()), again.ACLs().Matching(acl.Everything()))
			require.NoError(t, again.Close())
		}
	}
	read, write, other := allow("orders", acl.Read), allow("orders", acl.Write), allow("other", acl.Read)
	require.Zero(t, c.ACLs().Len())
	require.NoError(t, c.CreateACLs(t.Context(), read, write, other))
	check(read, write, other)
	same := c.ACLs()
	require.NoError(t, c.CreateACLs(t.Context(), read, read)) // both bindings exist already
	create(t, c, "orders", 1)
	require.Same(t, same, c.ACLs(), "nothing was changed")
	gone, err := c.DeleteACLs(t.Context(), acl.Exactly(write), acl.Exactly(allow("orders", acl.Create)))
	require.NoError(t, err)
	require.Equal(t, [][]acl.Entry{{write}, nil}, gone)
	check(read, other)
	_, err = c.DeleteACLs(t.Context(), acl.Everything())
	require.NoError(t, err)
	check()
	require.NoError(t, c.CreateACLs(t.Context(), write))
	check(write)
}

func TestSnapshotsKeepACLs(t *testing.T) {
	fsys := vfs.Mem()
	c, err := Open(Config{FS: fsys, Dir: "data", metaSlack: -1})
	require.NoError(t, err)
	var all []acl.Entry
	for i := range 100 {
		all = append(all, allow(fmt.Sprint("t", i), acl.Read))
		require.NoError(t, c.CreateACLs(t.Context(), all[i]))
	}
	require.NoError(t, c.Close())
	c, err = Open(Config{FS: fsys, Dir: "data"})
	require.NoError(t, err)
	require.Equal(t, acl.Sorted(all), c.ACLs().Matching(acl.Everything()))
	require.NoError(t, c.Close())
}

func TestACLsThatCannotBeAreRefused(t *testing.T) {
	c := open(t, vfs.Mem())
	require.ErrorIs(t, c.CreateACLs(t.Context(), allow("orders", acl.Read), allow("", acl.Read)), acl.ErrInvalid)
	_, err := c.DeleteACLs(t.Context(), acl.Filter{})
	require.ErrorIs(t, err, acl.ErrInvalid)
	many := make([]acl.Entry, 10_001)
	for i := range many {
		many[i] = allow(fmt.Sprint("t", i), acl.Read)
	}
	require.ErrorIs(t, c.CreateACLs(t.Context(), many...), ErrPolicyViolation)
	require.Zero(t, c.ACLs().Len(), "all or none")
}
