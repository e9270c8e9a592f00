package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settable are the flags of a target that can be set in the environment and in the configuration
// file instead. The password can be set only there: all users of a machine can read a process's
// arguments.
var settable = []string{"bootstrap", "timeout", "tls", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-insecure", "user", "sasl", "token-file"}

const passwordSetting = "password"

// Environment variables of the bootstrap address and of the configuration file's name.
const (
	bootstrapEnv = "STRATA_BOOTSTRAP"
	configEnv    = "STRATA_CONFIG"
)

func envOf(setting string) string {
	return "STRATA_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// fill sets settings without a flag from the environment, or else from the configuration file. It
// does nothing for a directory.
func (tg *target) fill(say func(format string, args ...any)) error {
	if tg.dir != "" {
		return nil
	}
	file, from, err := readSettings(tg.config)
	if err != nil {
		return err
	}
	if file[passwordSetting] != "" && everyoneReads(from) {
		say("every user of this machine can read the password in %s: chmod o-r", from)
	}
	for _, name := range settable {
		if tg.set.Changed(name) {
			continue
		}
		v, from := file[name], "the configuration file's "+name
		if env := os.Getenv(envOf(name)); env != "" && !tg.fileOnly {
			v, from = env, "$"+envOf(name)
		}
		if v == "" {
			continue
		}
		if err := tg.set.Set(name, v); err != nil {
			return misuse("%s: %v", from, errors.Unwrap(err))
		}
	}
	if !tg.fileOnly {
		tg.login.password = os.Getenv(envOf(passwordSetting))
	}
	if tg.login.password == "" {
		tg.login.password = file[passwordSetting]
	}
	if len(tg.bootstrap) == 0 {
		return misuse("no cluster given: use --bootstrap HOST:PORT, --dir DIR, the environment variable %s, or bootstrap in a configuration file (--config)", bootstrapEnv)
	}
	return nil
}

// readSettings reads a configuration file: lines name = value, # for comments. If name is empty it
// reads the file named in the environment, or else the user's file if it exists. from is the name
// of the file that it read, "" for none.
func readSettings(name string) (settings map[string]string, from string, err error) {
	settings = map[string]string{}
	optional := false
	if name == "" {
		var set bool
		if name, set = os.LookupEnv(configEnv); !set {
			dir, err := os.UserConfigDir()
			if err != nil {
				return settings, "", nil // no home directory
			}
			name, optional = filepath.Join(dir, "strata", "config"), true
		} else if name == "" {
			return settings, "", nil
		}
	}
	f, err := os.Open(name)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return settings, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch { // errors do not quote the value: it may be a password
		case !ok || value == "":
			return nil, "", misuse("%s, line %d: must be name = value", name, n)
		case key != passwordSetting && !slices.Contains(settable, key):
			return nil, "", misuse("%s, line %d: unknown setting %s; the settings are %s and %s", name, n, key, strings.Join(settable, ", "), passwordSetting)
		case settings[key] != "":
			return nil, "", misuse("%s, line %d: duplicate %s", name, n, key)
		}
		settings[key] = value
	}
	if err := lines.Err(); err != nil {
		return nil, "", fmt.Errorf("configuration: %s: %w", name, err)
	}
	return settings, name, nil
}
