package x500

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const documented = `RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT`

// The expected names are the results of Kafka's SslPrincipalMapper for the same rules.
func TestRulesMapAsKafkas(t *testing.T) {
	for _, tc := range []struct{ rules, name, want string }{
		{"DEFAULT", "CN=a,O=b", "CN=a,O=b"},
		{documented, "CN=kafka-admin,OU=ServiceUsers,O=Unknown,C=DE", "kafka-admin"},
		{documented, "CN=Adam,OU=Users,O=Unknown,L=u,ST=s,C=DE", "adam@users"},
		{documented, "O=x,CN=Bob.B", "bob.b"},
		{documented, "O=nobody", "O=nobody"},
		{`RULE:^CN=(.*)$/$1/U`, "CN=abc", "ABC"},
		{`RULE:^CN=(.*)$/$1$2/`, "CN=abc", "abc$2"},
		{`RULE:^CN=(.*)$/$12/`, "CN=abc", "abc2"},
		{`RULE:^CN=(.*)$/$0!/`, "CN=abc", "CN=abc!"},
		{`RULE:^CN=(.)(.)(.)$/$3$4$1/`, "CN=abc", "c$4a"},
		{`RULE:^CN=(.*)$/a\$1\/b/`, "CN=abc", "a$1/b"},
		{`RULE:^CN=(a\/b)$/$1/`, "CN=a/b", "a/b"},
		{`RULE:b+/x/`, "bbb", "x"},
		{`RULE:[a-z]+?/x/`, "abc", "xxx"},
		{`RULE:a|abc/x/`, "abc", "xbc"},
		{`  RULE:^CN=(.*)$/$1/L ,  DEFAULT `, "CN=ABC", "abc"},
		{`DEFAULT,,DEFAULT`, "a", "a"},
		{`RULE:a/b/, ,DEFAULT`, "c", "c"},
		{`RULE:^(CN=(.*),O=x)|(O=y)$/$2/`, "O=y", ""},
		{"", "CN=a", "CN=a"}, // Strata's choice: Kafka maps no name then
	} {
		rs, err := ParseRules(tc.rules)
		require.NoError(t, err, tc.rules)
		got, ok := rs.Apply(tc.name)
		require.True(t, ok, tc.rules)
		require.Equal(t, tc.want, got, "%s of %s", tc.rules, tc.name)
	}
}

func TestNamesThatNoRuleMatchesAreNobodys(t *testing.T) {
	for _, tc := range [][2]string{{`RULE:^CN=(.*)$/$1/`, "O=x"}, {`RULE:[a-z]/x/`, "abc"}, {`RULE:^CN=(.*)$/$1/`, "XCN=a"}} {
		rs, err := ParseRules(tc[0])
		require.NoError(t, err)
		_, ok := rs.Apply(tc[1])
		require.False(t, ok, "%s of %s", tc[0], tc[1])
	}
}

func TestInvalidRulesAreRefused(t *testing.T) {
	for _, rules := range []string{
		"RULE:a/b", "RULE:a", "FOO", "RULE:a/b/X", "RULE:a/b/LU", "DEFAULTS", "RULE:(/b/", `RULE:^CN=x$/$1/`, `RULE:a/$/`, `RULE:a/${n}/`,
		`RULE:(a)\1/b/`, "default", "DEFAULT RULE:a/b/",
	} {
		_, err := ParseRules(rules)
		require.ErrorIs(t, err, ErrInvalidRules, rules)
	}
}

func FuzzRules(f *testing.F) {
	f.Add(documented, "CN=Adam,OU=Users,O=Unknown,L=u,ST=s,C=DE")
	f.Add(`RULE:^CN=(.*)$/a\$1\/b/`, "CN=abc")
	f.Fuzz(func(t *testing.T, rules, name string) {
		if rs, err := ParseRules(rules); err == nil && len(rules) < 200 {
			rs.Apply(name)
		}
	})
}
