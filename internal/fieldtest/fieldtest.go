// Package fieldtest changes values place by place, for tests of all fields of a type. Examples are
// that an equality compares every field, and that a caller may write to all memory of a result.
package fieldtest

import (
	"fmt"
	"reflect"
)

// EachChange calls f for each place of a value from build, with a value that differs only there.
// Places are exported fields, elements, lengths of slices, and whether pointers are nil, at any
// depth. A map has one place: an entry, which is removed. Values that build returns must not share
// memory.
func EachChange[T any](build func() T, f func(place string, changed T)) {
	for n := 0; ; n++ {
		changed, left := build(), n
		place := change(reflect.ValueOf(&changed).Elem(), "", &left)
		if place == "" {
			return
		}
		f(place, changed)
	}
}

// change changes the place of v after left others, and returns its name; "" if there are fewer
// places.
func change(v reflect.Value, at string, left *int) string {
	here := func() bool { *left--; return *left == -1 }
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				if place := change(v.Field(i), at+"."+field.Name, left); place != "" {
					return place
				}
			}
		}
	case reflect.Pointer:
		switch {
		case v.IsNil() && here():
			v.Set(reflect.New(v.Type().Elem()))
			return at + " is set"
		case v.IsNil():
		case here():
			v.SetZero()
			return at + " is nil"
		default:
			return change(v.Elem(), at, left)
		}
	case reflect.Slice:
		if here() {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			return at + " is longer"
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			if place := change(v.Index(i), fmt.Sprint(at, "[", i, "]"), left); place != "" {
				return place
			}
		}
	case reflect.Map:
		if v.Len() > 0 && here() {
			v.SetMapIndex(v.MapKeys()[0], reflect.Value{})
			return at + " is smaller"
		}
	default:
		if v.CanSet() && here() {
			scramble(v)
			return at
		}
	}
	return ""
}

// Scramble writes to all memory that v shares with copies of it: elements of slices, entries of
// maps, targets of pointers. It does not change errors and other interfaces, nor unexported fields.
func Scramble(v any) { scrambleShared(reflect.ValueOf(v)) }

func scrambleShared(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scrambleShared(v.Field(i))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			scrambleShared(v.Elem())
			scramble(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			scrambleShared(v.Index(i))
			scramble(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			scrambleShared(v.MapIndex(key))
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	}
}

// scramble changes v itself.
func scramble(v reflect.Value) {
	switch {
	case !v.CanSet():
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanUint():
		v.SetUint(v.Uint() + 1)
	case v.CanFloat():
		v.SetFloat(v.Float() + 1)
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "?")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scramble(v.Field(i))
			}
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			scramble(v.Index(i))
		}
	}
}
