package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *app) quotasCmd() *cobra.Command {
	c := a.parent(&cobra.Command{Use: "quotas", Short: "List, set and remove client quotas"})
	c.AddCommand(a.quotasList(), a.quotasSet(), a.quotasRemove())
	return c
}

// quotaParts are the entity types that an entity with quotas consists of, in the order of output.
var quotaParts = []string{"user", "client-id", "ip"}

// quotaFlags are the flags that select an entity, by entity type.
type quotaFlags struct {
	names    map[string]*string
	defaults map[string]*bool
}

func (q *quotaFlags) flags(c *cobra.Command) {
	q.names, q.defaults = map[string]*string{}, map[string]*bool{}
	of := map[string]string{"user": "user", "client-id": "client id", "ip": "client address"}
	for _, part := range quotaParts {
		q.names[part] = c.Flags().String("for-"+part, "", of[part]+" that the quotas apply to")
		q.defaults[part] = c.Flags().Bool("default-"+part, false, "the default quotas, of each "+of[part]+" without its own")
	}
}

// String returns the entity as text.
func (q *quotaFlags) String() string {
	_, names, _ := q.given()
	return entityText(names)
}

// given returns the entity types that the flags name, and for each its name, nil for the default.
func (q *quotaFlags) given() (parts []string, names map[string]*string, err error) {
	names = map[string]*string{}
	for _, part := range quotaParts {
		name, byDefault := *q.names[part], *q.defaults[part]
		switch {
		case name != "" && byDefault:
			return nil, nil, misuse("--for-%s and --default-%s exclude each other", part, part)
		case byDefault:
			parts, names[part] = append(parts, part), nil
		case name != "":
			parts, names[part] = append(parts, part), &name
		}
	}
	return parts, names, nil
}

type quotaLine struct {
	Type   string             `json:"type"`
	Entity map[string]*string `json:"entity"` // null: the default
	Quotas map[string]float64 `json:"quotas"`
}

// entityText returns an entity as text.
func entityText(names map[string]*string) string {
	var parts []string
	for _, part := range quotaParts {
		if name, ok := names[part]; ok && name == nil {
			parts = append(parts, part+" (default)")
		} else if ok {
			parts = append(parts, part+" "+*name)
		}
	}
	return strings.Join(parts, ", ")
}

// values returns the quotas as text, by key.
func (l quotaLine) values() string {
	keys := make([]string, 0, len(l.Quotas))
	for k, v := range l.Quotas {
		keys = append(keys, k+"="+strconv.FormatFloat(v, 'f', -1, 64))
	}
	if slices.Sort(keys); len(keys) == 0 {
		keys = []string{"none"}
	}
	return strings.Join(keys, " ")
}

func (l quotaLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", entityText(l.Entity), l.values())
}

// listQuotas returns the quotas of entities that have all of the parts. If strict, it returns only
// the entity without further parts.
func listQuotas(ctx context.Context, c *conn, tg *target, strict bool, parts []string, names map[string]*string) (lines []quotaLine, err error) {
	const exact, byDefault = 0, 1
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Strict = strict
	for _, part := range parts {
		f := kmsg.DescribeClientQuotasRequestComponent{EntityType: part, MatchType: exact, Match: names[part]}
		if names[part] == nil {
			f.MatchType = byDefault
		}
		req.Components = append(req.Components, f)
	}
	got, err := c.request(ctx, tg, req)
	if err != nil {
		return nil, err
	}
	resp := got.(*kmsg.DescribeClientQuotasResponse)
	if err := aclError(cmp.Or(entityText(names), "quotas"), resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	for _, e := range resp.Entries {
		l := quotaLine{Type: "quota", Entity: map[string]*string{}, Quotas: map[string]float64{}}
		for _, p := range e.Entity {
			l.Entity[p.Type] = p.Name
		}
		for _, v := range e.Values {
			l.Quotas[v.Key] = v.Value
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func (a *app) quotasList() *cobra.Command {
	var tg target
	var q quotaFlags
	c := &cobra.Command{Use: "list", Short: "List client quotas", Args: cobra.NoArgs,
		Long:    "list prints the quotas of all entities, or of entities that include all parts named by flags.",
		Example: "  strata quotas list -b localhost:9092\n  strata quotas list --dir data --for-user alice"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		parts, names, err := q.given()
		if err != nil {
			return err
		}
		lines, err := listQuotas(ctx, c, &tg, false, parts, names)
		if err != nil {
			return err
		}
		for _, l := range lines {
			if err := a.emit(l); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	q.flags(c)
	return c
}

// changeQuotas changes the quotas of the entity that the flags name, and prints the new quotas.
func (a *app) changeQuotas(ctx context.Context, c *conn, tg *target, q *quotaFlags, changes func(had map[string]float64) ([]kmsg.AlterClientQuotasRequestEntryOp, error)) error {
	parts, names, err := q.given()
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return misuse("no entity: give --for-user, --for-client-id, --for-ip, or --default-user, --default-client-id, --default-ip")
	}
	before, err := listQuotas(ctx, c, tg, true, parts, names)
	if err != nil {
		return err
	}
	had := map[string]float64{}
	if len(before) > 0 {
		had = before[0].Quotas
	}
	e := kmsg.NewAlterClientQuotasRequestEntry()
	for _, part := range parts {
		e.Entity = append(e.Entity, kmsg.AlterClientQuotasRequestEntryEntity{Type: part, Name: names[part]})
	}
	if e.Ops, err = changes(had); err != nil {
		return err
	}
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = append(req.Entries, e)
	got, err := c.request(ctx, tg, req)
	if err != nil {
		return err
	}
	for _, r := range got.(*kmsg.AlterClientQuotasResponse).Entries {
		if err := aclError(entityText(names), r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
	}
	for _, op := range e.Ops {
		if delete(had, op.Key); !op.Remove {
			had[op.Key] = op.Value
		}
	}
	return a.emit(quotaLine{Type: "quota", Entity: names, Quotas: had})
}

const quotaKeys = "for users and client ids producer_byte_rate and\nconsumer_byte_rate (bytes per second), request_percentage (of one thread) and controller_mutation_rate (partitions per second); for\naddresses connection_creation_rate (connections per second)"

func (a *app) quotasSet() *cobra.Command {
	var tg target
	var q quotaFlags
	c := &cobra.Command{Use: "set KEY=VALUE...", Short: "Set client quotas", Args: cobra.MinimumNArgs(1),
		Long: "set sets quotas of one entity and prints all its quotas. The keys are " + quotaKeys + ".\n\n" +
			"A quota of a user and client id together takes precedence over one of the user alone, and that over one of the client id alone.",
		Example: "  strata quotas set -b localhost:9092 --for-user alice producer_byte_rate=1048576 consumer_byte_rate=2097152\n" +
			"  strata quotas set --dir data --default-client-id request_percentage=50"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error {
		return a.changeQuotas(ctx, c, &tg, &q, func(map[string]float64) (ops []kmsg.AlterClientQuotasRequestEntryOp, err error) {
			for _, arg := range args {
				key, text, ok := strings.Cut(arg, "=")
				v, err := strconv.ParseFloat(text, 64)
				if !ok || err != nil {
					return nil, misuse("%q: must be KEY=NUMBER", arg)
				}
				if slices.ContainsFunc(ops, func(op kmsg.AlterClientQuotasRequestEntryOp) bool { return op.Key == key }) {
					return nil, misuse("%s is given twice", key)
				}
				ops = append(ops, kmsg.AlterClientQuotasRequestEntryOp{Key: key, Value: v})
			}
			return ops, nil
		})
	})
	tg.flags(c)
	q.flags(c)
	return c
}

func (a *app) quotasRemove() *cobra.Command {
	var tg target
	var q quotaFlags
	c := &cobra.Command{Use: "remove [KEY...]", Short: "Remove client quotas",
		Long:    "remove deletes the named quotas of one entity, or all of them, and prints the remaining quotas.",
		Example: "  strata quotas remove -b localhost:9092 --for-user alice producer_byte_rate\n  strata quotas remove --dir data --default-client-id"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error {
		return a.changeQuotas(ctx, c, &tg, &q, func(had map[string]float64) (ops []kmsg.AlterClientQuotasRequestEntryOp, err error) {
			for k := range had {
				if len(args) == 0 || slices.Contains(args, k) {
					ops = append(ops, kmsg.AlterClientQuotasRequestEntryOp{Key: k, Remove: true})
				}
			}
			for _, k := range args {
				if _, ok := had[k]; !ok {
					return nil, fmt.Errorf("%s: no quota %s to remove", q.String(), k)
				}
			}
			return ops, nil
		})
	})
	tg.flags(c)
	q.flags(c)
	return c
}
