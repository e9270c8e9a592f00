package strata;

import org.apache.kafka.common.config.types.Password;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What Kafka's settings say of TLS, for a strata serve and for a client of it. */
final class Tls {
    private final Map<String, Object> settings = new HashMap<>();

    Tls(Map<String, ?> settings) {
        settings.forEach((name, value) -> {
            if (name.startsWith("ssl.") && value != null) {
                this.settings.put(name, value);
            }
        });
    }

    /** Adds options of strata serve, with files in a directory. */
    void options(List<String> command, Path dir) throws IOException {
        try {
            KeyStore keys = store("ssl.keystore");
            String alias = keys.aliases().nextElement();
            Key key = keys.getKey(alias, password("ssl.key.password"));
            Files.writeString(dir.resolve("key"), pem("PRIVATE KEY", key.getEncoded()));
            Files.writeString(dir.resolve("cert"), pem(keys.getCertificateChain(alias)));
            command.addAll(List.of("--tls-cert", dir.resolve("cert").toString(), "--tls-key", dir.resolve("key").toString()));
            switch (settings.getOrDefault("ssl.client.auth", "none").toString()) {
                case "none":
                    return;
                case "required":
                    break;
                default:
                    throw Inside.needs("ssl.client.auth=" + settings.get("ssl.client.auth"));
            }
            KeyStore trusted = store("ssl.truststore");
            List<Certificate> authorities = new ArrayList<>();
            for (String of : Collections.list(trusted.aliases())) {
                authorities.add(trusted.getCertificate(of));
            }
            Files.writeString(dir.resolve("authorities"), pem(authorities.toArray(new Certificate[0])));
            command.addAll(List.of("--tls-client-ca", dir.resolve("authorities").toString()));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Settings of a client, which has the broker's certificate if it needs one. */
    Map<String, Object> client() {
        Map<String, Object> c = new HashMap<>(settings);
        c.keySet().removeIf(name -> !name.startsWith("ssl.keystore.") && !name.startsWith("ssl.truststore.") && !name.equals("ssl.key.password"));
        return c;
    }

    private KeyStore store(String prefix) throws GeneralSecurityException, IOException {
        KeyStore s = KeyStore.getInstance(settings.get(prefix + ".type").toString());
        try (InputStream in = new FileInputStream(settings.get(prefix + ".location").toString())) {
            s.load(in, password(prefix + ".password"));
        }
        return s;
    }

    private char[] password(String name) {
        Object p = settings.get(name);
        return p == null ? null : ((Password) p).value().toCharArray();
    }

    private static String pem(Certificate... certificates) throws GeneralSecurityException {
        StringBuilder all = new StringBuilder();
        for (Certificate c : certificates) {
            all.append(pem("CERTIFICATE", c.getEncoded()));
        }
        return all.toString();
    }

    private static String pem(String type, byte[] of) {
        String text = Base64.getMimeEncoder(64, "\n".getBytes()).encodeToString(of);
        return "-----BEGIN " + type + "-----\n" + text + "\n-----END " + type + "-----\n";
    }
}
