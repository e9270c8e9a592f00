package strata;

import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyPairGeneratorSpi;
import java.security.NoSuchAlgorithmException;
import java.security.Provider;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;

/**
 * Gives out the same few RSA keys in turn, as a provider that comes before Java's: tests make some for each broker
 * and client, which takes seconds each, and what they are about is who trusts which certificate.
 */
public final class Keys extends Provider {
    private static final int FEW = 8;

    private static final List<KeyPair> MADE = new ArrayList<>();
    private static int next;

    public Keys() {
        super("strata", "1", "RSA keys that are made once");
        put("KeyPairGenerator.RSA", Rsa.class.getName());
    }

    private static synchronized KeyPair key() {
        if (MADE.size() < FEW) {
            try {
                KeyPairGenerator g = KeyPairGenerator.getInstance("RSA", "SunRsaSign");
                g.initialize(2048);
                MADE.add(g.generateKeyPair());
            } catch (NoSuchAlgorithmException | java.security.NoSuchProviderException e) {
                throw new IllegalStateException(e);
            }
        }
        return MADE.get(next++ % MADE.size());
    }

    /** What KeyPairGenerator.getInstance makes. */
    public static final class Rsa extends KeyPairGeneratorSpi {
        @Override
        public void initialize(int bits, SecureRandom random) {
            // all have 2048
        }

        @Override
        public KeyPair generateKeyPair() {
            return key();
        }
    }
}
