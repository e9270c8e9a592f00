package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
)

func (a *app) aclsCmd() *cobra.Command {
	c := a.parent(&cobra.Command{Use: "acls", Short: "List, add and remove access control entries"})
	c.AddCommand(a.aclsList(), a.aclsAdd(), a.aclsRemove())
	return c
}

// aclFlags are the flags that select access control entries, or describe one.
type aclFlags struct {
	resourceType, resource, pattern, principal, host, operation, permission string
}

func (l *aclFlags) flags(c *cobra.Command, otherwise acl.Entry) {
	f := c.Flags()
	f.StringVar(&l.resourceType, "type", "", "resource type: topic, group, cluster, transactional_id, delegation_token, user")
	f.StringVar(&l.resource, "name", "", "name of the resource; * for all of that type; the cluster's is "+acl.ClusterName)
	f.StringVar(&l.pattern, "pattern", "", "pattern type of --name: literal, prefixed; list and remove also take match (every entry that applies to the name)")
	f.StringVar(&l.principal, "principal", "", "principal, as User:alice; User:* is any user")
	f.StringVar(&l.host, "host", otherwise.Host, "address of the client; * is any address")
	f.StringVar(&l.operation, "operation", "", "read, write, create, delete, alter, describe, cluster_action, describe_configs, alter_configs, idempotent_write, all ...")
	f.StringVar(&l.permission, "permission", "", "allow or deny")
}

// filter returns the filter that the flags describe. A flag that is not given matches all entries.
func (l *aclFlags) filter() (f acl.Filter, err error) {
	f = acl.Everything()
	said := func(text string, take func() error) {
		if err == nil && text != "" {
			err = take()
		}
	}
	said(l.resourceType, func() (err error) { f.ResourceType, err = acl.ParseResourceType(l.resourceType); return err })
	said(l.pattern, func() (err error) { f.PatternType, err = acl.ParsePatternType(l.pattern); return err })
	said(l.operation, func() (err error) { f.Operation, err = acl.ParseOperation(l.operation); return err })
	said(l.permission, func() (err error) { f.Permission, err = acl.ParsePermission(l.permission); return err })
	said(l.resource, func() error { f.ResourceName = &l.resource; return nil })
	said(l.principal, func() error { f.Principal = &l.principal; return nil })
	said(l.host, func() error { f.Host = &l.host; return nil })
	if err != nil {
		return f, misuse("%v", err)
	}
	return f, nil
}

// entry returns the one entry that the flags describe.
func (l *aclFlags) entry() (acl.Entry, error) {
	f, err := l.filter()
	if err != nil {
		return acl.Entry{}, err
	}
	e := acl.Entry{ResourceType: f.ResourceType, ResourceName: l.resource, PatternType: f.PatternType, Principal: l.principal, Host: l.host, Operation: f.Operation, Permission: f.Permission}
	if e.ResourceType == acl.Cluster && e.ResourceName == "" {
		e.ResourceName = acl.ClusterName
	}
	if l.pattern == "" {
		e.PatternType = acl.Literal
	}
	if l.permission == "" {
		e.Permission = acl.Allow
	}
	switch {
	case l.resourceType == "" || l.principal == "" || l.operation == "":
		return e, misuse("--type, --principal and --operation are required")
	case e.Validate() != nil:
		return e, misuse("%v", e.Validate())
	}
	if _, err := netip.ParseAddr(e.Host); err != nil && e.Host != acl.Wildcard {
		return e, misuse("--host %s: must be an address, as 10.0.0.7 or ::1, or *; an entry with another host matches no client", e.Host)
	}
	return e, nil
}

type aclLine struct {
	Type         string `json:"type"`
	ResourceType string `json:"resourceType"`
	Resource     string `json:"resource"`
	PatternType  string `json:"patternType"`
	Principal    string `json:"principal"`
	Host         string `json:"host"`
	Operation    string `json:"operation"`
	Permission   string `json:"permission"`
}

func lineOf(what string, e acl.Entry) aclLine {
	return aclLine{what, e.ResourceType.String(), e.ResourceName, e.PatternType.String(), e.Principal, e.Host, e.Operation.String(), e.Permission.String()}
}

func (l aclLine) writeText(w io.Writer) {
	done := ""
	if l.Type != "acl" {
		done = l.Type + " "
	}
	fmt.Fprintf(w, "%s%s %s %s from %s on %s %s:%s\n", done, l.Permission, l.Principal, l.Operation, l.Host, l.PatternType, l.ResourceType, l.Resource)
}

// request sends one request to any broker of the target.
func (c *conn) request(ctx context.Context, tg *target, req kmsg.Request) (kmsg.Response, error) {
	client, err := c.newClient()
	if err != nil {
		return nil, err
	}
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	return client.Request(ctx, req)
}

// aclError returns the error of a response about what, with the broker's message if it has one.
func aclError(what string, code int16, text *string) error {
	err := kerr.ErrorForCode(code)
	switch {
	case err == nil:
		return nil
	case text == nil:
		return withMessage(what, err, "")
	}
	return withMessage(what, err, *text)
}

// listACLs returns the entries that match a filter.
func listACLs(ctx context.Context, tg *target, c *conn, f acl.Filter) (entries []acl.Entry, err error) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourceName, req.ResourcePatternType = kmsg.ACLResourceType(f.ResourceType), f.ResourceName, kmsg.ACLResourcePatternType(f.PatternType)
	req.Principal, req.Host, req.Operation, req.PermissionType = f.Principal, f.Host, kmsg.ACLOperation(f.Operation), kmsg.ACLPermissionType(f.Permission)
	got, err := c.request(ctx, tg, req)
	if err != nil {
		return nil, err
	}
	resp := got.(*kmsg.DescribeACLsResponse)
	if err := aclError("access control entries", resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	for _, r := range resp.Resources {
		for _, e := range r.ACLs {
			entries = append(entries, acl.Entry{
				ResourceType: acl.ResourceType(r.ResourceType), ResourceName: r.ResourceName, PatternType: acl.PatternType(r.ResourcePatternType),
				Principal: e.Principal, Host: e.Host, Operation: acl.Operation(e.Operation), Permission: acl.Permission(e.PermissionType),
			})
		}
	}
	return entries, nil
}

func (a *app) aclsList() *cobra.Command {
	var tg target
	var l aclFlags
	c := &cobra.Command{Use: "list", Short: "List access control entries", Args: cobra.NoArgs,
		Long:    "list prints the entries that match all flags given; without flags, all entries.",
		Example: "  strata acls list -b localhost:9092\n  strata acls list --dir data --type topic --name orders --pattern match"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		f, err := l.filter()
		if err != nil {
			return err
		}
		entries, err := listACLs(ctx, &tg, c, f)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := a.emit(lineOf("acl", e)); err != nil {
				return err
			}
		}
		return nil
	})
	tg.flags(c)
	l.flags(c, acl.Entry{})
	return c
}

func (a *app) aclsAdd() *cobra.Command {
	var tg target
	var l aclFlags
	c := &cobra.Command{Use: "add", Short: "Add an access control entry", Args: cobra.NoArgs,
		Long: "add creates one entry. The entry is in force when the command returns. Defaults: permission allow, pattern literal, any host.",
		Example: "  strata acls add -b localhost:9092 --type topic --name orders --principal User:alice --operation read\n" +
			"  strata acls add --dir data --type group --name app- --pattern prefixed --principal 'User:*' --operation all --permission deny"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		e, err := l.entry()
		if err != nil {
			return err
		}
		r := kmsg.NewCreateACLsRequestCreation()
		r.ResourceType, r.ResourceName, r.ResourcePatternType = kmsg.ACLResourceType(e.ResourceType), e.ResourceName, kmsg.ACLResourcePatternType(e.PatternType)
		r.Principal, r.Host, r.Operation, r.PermissionType = e.Principal, e.Host, kmsg.ACLOperation(e.Operation), kmsg.ACLPermissionType(e.Permission)
		req := kmsg.NewPtrCreateACLsRequest()
		req.Creations = append(req.Creations, r)
		got, err := c.request(ctx, &tg, req)
		if err != nil {
			return err
		}
		for _, made := range got.(*kmsg.CreateACLsResponse).Results {
			if err := aclError("access control entry", made.ErrorCode, made.ErrorMessage); err != nil {
				return err
			}
		}
		return a.emit(lineOf("added", e))
	})
	tg.flags(c)
	l.flags(c, acl.Entry{Host: acl.Wildcard})
	return c
}

func (a *app) aclsRemove() *cobra.Command {
	var tg target
	var l aclFlags
	var all bool
	c := &cobra.Command{Use: "remove", Short: "Remove access control entries", Args: cobra.NoArgs,
		Long:    "remove deletes the entries that match all flags given, and prints them. Without flags it deletes nothing unless --all is given.",
		Example: "  strata acls remove -b localhost:9092 --principal User:alice\n  strata acls remove --dir data --type topic --name orders --operation read"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, _ []string) error {
		f, err := l.filter()
		if err != nil {
			return err
		}
		if f == acl.Everything() && !all {
			return misuse("no flag selects entries; --all removes all of them")
		}
		r := kmsg.NewDeleteACLsRequestFilter()
		r.ResourceType, r.ResourceName, r.ResourcePatternType = kmsg.ACLResourceType(f.ResourceType), f.ResourceName, kmsg.ACLResourcePatternType(f.PatternType)
		r.Principal, r.Host, r.Operation, r.PermissionType = f.Principal, f.Host, kmsg.ACLOperation(f.Operation), kmsg.ACLPermissionType(f.Permission)
		req := kmsg.NewPtrDeleteACLsRequest()
		req.Filters = append(req.Filters, r)
		got, err := c.request(ctx, &tg, req)
		if err != nil {
			return err
		}
		for _, result := range got.(*kmsg.DeleteACLsResponse).Results {
			if err := aclError("access control entries", result.ErrorCode, result.ErrorMessage); err != nil {
				return err
			}
			for _, e := range result.MatchingACLs {
				if err := a.emit(lineOf("removed", acl.Entry{
					ResourceType: acl.ResourceType(e.ResourceType), ResourceName: e.ResourceName, PatternType: acl.PatternType(e.ResourcePatternType),
					Principal: e.Principal, Host: e.Host, Operation: acl.Operation(e.Operation), Permission: acl.Permission(e.PermissionType),
				})); err != nil {
					return err
				}
			}
		}
		return nil
	})
	tg.flags(c)
	l.flags(c, acl.Entry{})
	c.Flags().BoolVar(&all, "all", false, "without other flags: remove all entries")
	return c
}
