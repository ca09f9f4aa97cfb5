/* The engine in an Android app: class org.example.Llada with three native methods.
 *   external fun open(model: String, device: String, libraries: String): Long
 *   external fun ask(engine: Long, prompt: String, genLength: Int): String     waits: not on the main thread
 *   external fun close(engine: Long)
 * In Kotlin: Llada().open("$filesDir/model.gguf", "hexagon", applicationInfo.nativeLibraryDir); "cpu" works everywhere,
 * while a phone's maker chooses whether apps may load unsigned modules. A failure is a RuntimeException with the
 * engine's line.
 *
 * The app puts libllada.so, this library and the DSP's modules below lib/arm64-v8a, and the model into its files
 * folder. The DSP loads files, not entries of an APK, so the libraries have to be extracted: in build.gradle.kts
 *   android { packaging { jniLibs { useLegacyPackaging = true } } }
 * and in AndroidManifest.xml, where the second line shows the vendor's library to the app:
 *   <application android:extractNativeLibs="true">
 *     <uses-native-library android:name="libcdsprpc.so" android:required="false"/> */
#include <jni.h>
#include <llada/llada.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct opened {
  llada_model *model;
  llada_engine *engine;
} opened;

static void throw_error(JNIEnv *env, const char *line) {
  (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/RuntimeException"), line);
}

static void close_all(opened *o) {
  llada_engine_free(o->engine), llada_model_free(o->model);
  free(o);
}

/* libraries: applicationInfo.nativeLibraryDir, where the DSP's modules lie and FastRPC has to look for them. */
JNIEXPORT jlong JNICALL Java_org_example_Llada_open(JNIEnv *env, jobject self, jstring model, jstring device,
                                                    jstring libraries) {
  const char *path = (*env)->GetStringUTFChars(env, model, NULL);
  const char *unit = (*env)->GetStringUTFChars(env, device, NULL);
  const char *folder = (*env)->GetStringUTFChars(env, libraries, NULL);
  opened *o = calloc(1, sizeof *o);
  llada_options *options = NULL;
  int good = path != NULL && unit != NULL && folder != NULL && o != NULL;
  (void)self;
  good = good && setenv("ADSP_LIBRARY_PATH", folder, 1) == 0;
  good = good && llada_options_create(LLADA_API_VERSION, &options) == LLADA_OK;
  good = good && llada_options_set(options, "device", unit) == LLADA_OK;
  good = good && llada_model_load(LLADA_API_VERSION, path, options, NULL, NULL, &o->model) == LLADA_OK;
  good = good && llada_engine_create(o->model, NULL, &o->engine) == LLADA_OK;
  if (!good) throw_error(env, llada_error(NULL));
  llada_options_free(options);
  if (!good && o != NULL) close_all(o), o = NULL;
  if (path != NULL) (*env)->ReleaseStringUTFChars(env, model, path);
  if (unit != NULL) (*env)->ReleaseStringUTFChars(env, device, unit);
  if (folder != NULL) (*env)->ReleaseStringUTFChars(env, libraries, folder);
  return (jlong)(size_t)o;
}

JNIEXPORT jstring JNICALL Java_org_example_Llada_ask(JNIEnv *env, jobject self, jlong engine, jstring prompt,
                                                     jint gen_length) {
  const opened *o = (const opened *)(size_t)engine;
  const char *role = "user", *text = (*env)->GetStringUTFChars(env, prompt, NULL);
  char number[16];
  llada_options *options = NULL;
  llada_request *request = NULL;
  llada_result result = LLADA_RESULT_INIT;
  jstring answer = NULL;
  (void)self;
  if (text == NULL) return NULL;
  snprintf(number, sizeof number, "%d", (int)gen_length);
  if (llada_options_create(LLADA_API_VERSION, &options) == LLADA_OK &&
      llada_options_set(options, "gen_length", number) == LLADA_OK &&
      llada_submit_chat(o->engine, &role, &text, 1, options, &request) == LLADA_OK &&
      llada_request_wait(request, -1) == LLADA_OK && llada_request_result(request, &result) == LLADA_OK)
    answer = (*env)->NewStringUTF(env, result.text);
  else
    throw_error(env, llada_error(NULL));
  llada_request_free(request), llada_options_free(options);
  (*env)->ReleaseStringUTFChars(env, prompt, text);
  return answer;
}

JNIEXPORT void JNICALL Java_org_example_Llada_close(JNIEnv *env, jobject self, jlong engine) {
  (void)env, (void)self;
  if (engine != 0) close_all((opened *)(size_t)engine);
}
