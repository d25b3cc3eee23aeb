package cellar.bench;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.LinkedHashMap;
import java.util.Map;

/** The machine and the moment of a measurement, by the names that all of bench/results use. */
final class Setting {
    private Setting() {}

    static Map<String, Object> here(String command, String placement) throws Exception {
        Map<String, Object> setting = new LinkedHashMap<>();
        setting.put("date", LocalDate.now(ZoneOffset.UTC).toString());
        setting.put("command", command);
        setting.put("commit", said("git", "describe", "--always", "--dirty", "--exclude=*"));
        setting.put("cpu", processor());
        setting.put("cpus", Cores.count());
        setting.put("kernel", System.getProperty("os.version"));
        setting.put("java", System.getProperty("java.runtime.version"));
        setting.put("memcached", said("memcached", "--version"));
        setting.put("placement", placement);
        return setting;
    }

    private static String processor() throws IOException {
        Path file = Path.of("/proc/cpuinfo");
        if (!Files.isReadable(file)) {
            return "unknown";
        }
        return Files.readAllLines(file).stream()
                .filter(line -> line.startsWith("model name"))
                .map(line -> line.substring(line.indexOf(':') + 1).strip())
                .findFirst()
                .orElse("unknown");
    }

    private static String said(String... command) throws InterruptedException {
        try {
            Process process = new ProcessBuilder(command).start();
            byte[] output = process.getInputStream().readAllBytes();
            String text = new String(output, StandardCharsets.UTF_8).strip();
            return process.waitFor() == 0 ? text : "unknown";
        } catch (IOException e) {
            return "unknown";
        }
    }
}
