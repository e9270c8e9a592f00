package kafka.security.minikdc;

import java.io.File;
import java.util.List;
import java.util.Properties;

import strata.Inside;

/** Where Kafka's tests have a Kerberos server, in place of the class of this name: here there is none. */
public final class MiniKdc {
    public MiniKdc(Properties config, File dir) {
        throw Inside.needs("Kerberos");
    }

    public static Properties createConfig() {
        return new Properties();
    }

    public void start() {
    }

    public void stop() {
    }

    public void createPrincipal(File keytab, List<String> names) {
    }
}
